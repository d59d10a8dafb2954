"""Authorizer contexts without a usable tenant, which every route refuses."""

UNUSABLE: tuple[object, ...] = (
    None,
    {},
    {"principalId": "p"},
    *({"club_ids": value} for value in (None, "", " ", ",", "*", "0", "-1", "1,*", "1,-2", "1,,2", "[1", "[]]", "1.0")),
    *(
        {"club_ids": value}
        for value in ("all", "true", "\u0661", str(2**70), "[true]", "[null]", "[[1]]", "[" * 10_000)
    ),
    *({"club_ids": value} for value in (0, 1, -1, 1.5, True, False, [], [1], ["1"], {}, {"1": 1})),
    *({"all_clubs": value} for value in (None, "", "false", "1", "True", True, 1, [], ["true"])),
    {"all_clubs": "true", "club_ids": "1"},
    {"all_clubs": "false", "club_ids": "1"},
    "1",
    "*",
    [],
    [1],
    1,
    True,
)
