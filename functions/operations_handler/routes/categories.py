"""GET /v1/categories: the categories of sends, from schemas/categories.yaml."""

from collections.abc import Container
from typing import TypedDict

from masscomm.domain.categories import Category, category_table


class CategoryOfClub(TypedDict):
    """A category as it is for the sends of one club."""

    club_id: int
    channels: list[str]
    opt_in: list[str]


class CategoryRow(TypedDict):
    """A category of sends."""

    type: str
    """The value of the field `type` of a send; `default` stands for each type without a row."""
    channels: list[str]
    """The channels of a send that names none."""
    mandatory: bool
    """Whether an opt-out of the user does not apply."""
    opt_in: list[str]
    """The channels on which only users with a rule for the category get it."""
    clubs: list[CategoryOfClub]
    """The caller's clubs for which the category differs."""


class CategoriesBody(TypedDict):
    """The categories of sends."""

    rows: list[CategoryRow]


def categories_body(clubs: Container[object]) -> CategoriesBody:
    """Return the categories, and how they differ for these clubs."""
    table = category_table()
    return {
        "rows": [
            {
                "type": name,
                "channels": list(found.channels),
                "mandatory": found.mandatory,
                "opt_in": sorted(found.opt_in),
                "clubs": [
                    _of_club(club_id, own[name])
                    for club_id, own in sorted(table.of_clubs.items())
                    if name in own and club_id in clubs  # guard: tenancy.categories
                ],
            }
            for name, found in sorted(table.categories.items())
        ]
    }


def _of_club(club_id: int, found: Category) -> CategoryOfClub:
    return {"club_id": club_id, "channels": list(found.channels), "opt_in": sorted(found.opt_in)}
