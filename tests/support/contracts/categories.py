"""The tests that every store of changed categories must pass, in memory and real."""

import pytest

from masscomm.domain.categories import CategoryVersion
from masscomm.domain.category_versions import version_of
from masscomm.stores.categories.port import Categories, ChangedMeanwhile


def version(from_ms: int) -> CategoryVersion:
    fields = {
        "from_ms": from_ms,
        "channels": ["email"],
        "caps": [{"limit": 3, "window": "24h", "group": "ads"}],
        "titles": {"de": "Für dich"},
        "tenants": {"7": {"channels": ["push", "email"], "caps": []}},
    }
    return version_of(fields, "offers")


class CategoriesContract:
    @pytest.fixture
    def categories(self) -> Categories:
        raise NotImplementedError

    def test_versions_are_stored_by_name(self, categories: Categories) -> None:
        assert (categories.revision(), categories.every()) == (0, {})
        first, second = version(1), version(2)
        categories.put("offers", [first], revision=0)
        categories.put("a.b:c_d-1", [second], revision=1)
        categories.put("offers", [first, second], revision=2)
        assert categories.every() == {"offers": [first, second], "a.b:c_d-1": [second]}
        assert categories.revision() == 3

    @pytest.mark.kills(guard="categories.changed_meanwhile")
    def test_change_after_another_one_is_refused(self, categories: Categories) -> None:
        first, second = version(1), version(2)
        with pytest.raises(ChangedMeanwhile):
            categories.put("offers", [second], revision=1)
        categories.put("offers", [first], revision=0)
        for name in ("offers", "Offers"):
            with pytest.raises(ChangedMeanwhile):
                categories.put(name, [second], revision=0)
        assert categories.every() == {"offers": [first]}
        assert categories.revision() == 1
