"""GET /v1/categories: the categories of sends, from schemas/categories.yaml."""

from typing import TypedDict

from masscomm.domain.categories import categories

DEFAULT = "default"


class CategoryRow(TypedDict):
    """A category of sends."""

    type: str
    """The value of the field `type` of a send; `default` stands for each type without a row."""
    channels: list[str]
    """The channels of a send that names none."""
    mandatory: bool
    """Whether an opt-out of the user does not apply."""


class CategoriesBody(TypedDict):
    """The categories of sends."""

    rows: list[CategoryRow]


def categories_body() -> CategoriesBody:
    return {
        "rows": [
            {"type": name, "channels": list(found.channels), "mandatory": found.mandatory}
            for name, found in sorted(categories().items())
        ]
    }
