"""Preferences in layers: the first layer with a rule decides, and only a user's rule for the category is consent."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.domain import categories, setting_names
from masscomm.domain.categories import read_categories
from masscomm.domain.preferences import Decision, decide, decide_by_user_settings
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.tenant_preferences import EVERY_CLUB, TenantLayers, TenantPreferences, layers_of
from masscomm.domain.users import User, UserSettings

NAMES = ("tenant_user", "user", "tenant", "global")
CATEGORIES: dict[str, Any] = {
    "default": {"channels": ["push"]},
    "categories": {"news": {}, "offers": {"opt_in": ["email"]}, "code": {"mandatory": True}},
}


@pytest.fixture(autouse=True, scope="module")
def _categories() -> Iterator[None]:
    found = read_categories(CATEGORIES)
    with pytest.MonkeyPatch.context() as patched:
        for module in (categories, setting_names):
            patched.setattr(module, "category_table", lambda: found)
        yield


def _layer(**rules: Any) -> UserSettings:
    return UserSettings(user_id=1, **rules)


def _decide(
    type_: str = "news",
    channel: str = "push",
    /,
    *,
    tenant_user: UserSettings | None = None,
    user: UserSettings | None = None,
    tenant: UserSettings | None = None,
    every: UserSettings | None = None,
) -> Decision:
    layers = TenantLayers(user=tenant_user, own=tenant, every=every)
    return decide_by_user_settings(user, club_id=7, type=type_, channel=channel, tenant=layers)


def _brief(decision: Decision) -> tuple[bool, Reason | None, str, str | None]:
    return decision.status is None, decision.reason, decision.layer, decision.rule


# One layer: the rule for the category, the rules for channels, and the column with an unknown name.
RULES = st.sampled_from([None, True, False, 1])
LAYER = st.none() | st.fixed_dictionaries(
    {
        "category": RULES | st.dictionaries(st.sampled_from(["push", "email"]), RULES),
        "channels": st.dictionaries(st.sampled_from(["push", "email"]), RULES),
        "unknown": st.sampled_from([None, None, None, "channels", "categories", "category"]),
    }
)


def _settings_of(layer: Mapping[str, Any] | None, type_: str) -> UserSettings | None:
    if layer is None:
        return None
    about, unknown = layer["category"], layer["unknown"]
    if unknown == "category":
        about = {**(about if isinstance(about, dict) else {}), "fax": True}
    others: dict[str, Any] = {"parties": True} if unknown == "categories" else {}
    channels = layer["channels"] | ({"fax": True} if unknown == "channels" else {})
    return _layer(categories={type_: about, **others}, channels=channels)


def _verdict(layer: Mapping[str, Any] | None, channel: str) -> str | None:
    """What one layer says: no, yes for the category, yes for the channel, or nothing."""
    if layer is None:
        return None
    about, unknown = layer["category"], layer["unknown"]
    if unknown == "category":
        return "no"
    values: list[tuple[Any, str]] = [
        (about.get(channel) if isinstance(about, dict) else None, "yes for the category"),
        (about if not isinstance(about, dict) else None, "yes for the category"),
        (layer["channels"].get(channel), "yes for the channel"),
    ]
    given_ones = [(value, meaning) for value, meaning in values if value is not None]
    if given_ones and given_ones[0][0] is not True:
        return "no"
    if unknown is not None:
        return "no"
    return given_ones[0][1] if given_ones else None


def _expected(verdicts: Sequence[str | None], *, needs_opt_in: bool) -> tuple[bool, str]:
    """Decide slowly: (whether the notification is sent, the layer)."""
    tenant_user, user, tenant, every = verdicts
    wish = tenant_user or user
    if wish == "no":
        return False, "tenant_user" if tenant_user else "user"
    has_consent = "yes for the category" in (tenant_user, user)
    club = tenant or every
    club_name = "tenant" if tenant else "global"
    if has_consent and (club == "no" or needs_opt_in):
        return True, "tenant_user" if tenant_user == "yes for the category" else "user"
    if club == "no":
        return False, club_name
    if needs_opt_in:
        return False, "default"
    if wish:
        return True, "tenant_user" if tenant_user else "user"
    return True, club_name if club else "default"


@given(st.lists(LAYER, min_size=4, max_size=4), st.sampled_from(["news", "offers"]), st.sampled_from(["push", "email"]))
@pytest.mark.kills(guard="preferences.tenant_layers")
def test_layers_decide_as_a_slow_implementation(layers: list[Any], type_: str, channel: str) -> None:
    tenant_user, user, tenant, every = (_settings_of(layer, type_) for layer in layers)
    found = _decide(type_, channel, tenant_user=tenant_user, user=user, tenant=tenant, every=every)
    needs_opt_in = (type_, channel) == ("offers", "email")
    expected = _expected([_verdict(each, channel) for each in layers], needs_opt_in=needs_opt_in)
    assert (found.status is None, found.layer) == expected
    assert (found.reason is None) == (found.status is None)


@given(LAYER, st.sampled_from(["news", "offers"]), st.sampled_from(["push", "email"]))
@pytest.mark.kills(guard="preferences.opt_in_without_tenants")
def test_user_alone_is_decided_as_without_rules_of_tenants(layer: Any, type_: str, channel: str) -> None:
    user = _settings_of(layer, type_)
    alone = decide_by_user_settings(user, club_id=7, type=type_, channel=channel)
    assert alone == _decide(type_, channel, user=user, tenant=_layer())


@pytest.mark.parametrize("narrow", [{"categories": {"news": {"push": False}}}, {"channels": {"push": False}}])
@pytest.mark.parametrize("layer", NAMES[1:])
def test_rule_of_a_higher_layer_decides_first(narrow: Mapping[str, Any], layer: str) -> None:
    lower = {("every" if layer == "global" else layer): _layer(**narrow)}
    found = _decide(tenant_user=_layer(categories={"news": True}), **lower)
    assert _brief(found) == (True, None, "tenant_user", "category:news")


@pytest.mark.kills(guard="preferences.first_layer")
def test_settings_for_the_tenant_precede_the_own_ones() -> None:
    yes, no = _layer(categories={"news": True}), _layer(categories={"news": False})
    assert _decide(tenant_user=no, user=yes).layer == "tenant_user"
    assert _decide(tenant_user=no, user=yes).status is Status.SUPPRESSED
    assert _decide(tenant_user=yes, user=no).status is None


@pytest.mark.kills(guard="preferences.consent_by_category")
@pytest.mark.parametrize("layer", ["tenant", "every"])
@pytest.mark.parametrize("no", [{"channels": {"push": False}}, {"categories": {"news": False}}])
def test_only_a_rule_for_the_category_lifts_a_tenants_no(layer: str, no: Mapping[str, Any]) -> None:
    club = {layer: _layer(**no)}
    assert _decide(user=_layer(channels={"push": True}), **club).reason is Reason.OPTED_OUT
    assert _decide(**club).reason is Reason.OPTED_OUT
    for yes in ({"news": True}, {"news": {"push": True}}):
        assert _brief(_decide(user=_layer(categories=yes), **club))[:3] == (True, None, "user")


def test_rule_of_a_tenant_precedes_that_of_every_tenant() -> None:
    yes, no = _layer(channels={"push": True}), _layer(categories={"news": False})
    assert _brief(_decide(tenant=yes, every=no)) == (True, None, "tenant", "channel:push")
    assert _brief(_decide(every=no)) == (False, Reason.OPTED_OUT, "global", "category:news")


@pytest.mark.kills(guard="preferences.opt_in")
def test_yes_of_a_tenant_is_no_opt_in() -> None:
    yes = _layer(categories={"offers": True})
    found = _decide("offers", "email", tenant=yes, every=yes)
    assert _brief(found) == (False, Reason.NOT_OPTED_IN, "default", "opt_in")
    assert _decide("offers", "email", tenant_user=yes).status is None


def test_mandatory_category_ignores_rules_of_tenants() -> None:
    no = _layer(channels={"push": False}, categories="unreadable")
    assert _brief(_decide("code", tenant_user=no, tenant=no, every=no)) == (True, None, "default", "mandatory")


def test_unknown_name_in_rules_of_a_tenant_opts_out() -> None:
    unknown = _layer(categories={"parties": True})
    assert _brief(_decide(tenant=unknown)) == (False, Reason.OPTED_OUT, "tenant", "categories malformed: parties")
    assert _decide(user=_layer(categories={"news": True}), tenant=unknown).status is None


def test_decision_has_the_version_of_the_deciding_rules() -> None:
    rules = TenantPreferences(club_id=7, channels={"push": False}, categories={}, version=40)
    own = UserSettings(user_id=1, version=3)
    found = _decide(user=own, tenant=rules.settings)
    assert (found.settings_version, found.settings_changed_at) == (40, 40)
    assert _decide(user=own, tenant=_layer()).settings_version == 3


@pytest.mark.kills(guard="tenancy.layers_of_tenant")
def test_rules_of_another_tenant_do_not_apply() -> None:
    tenants = {8: _layer(channels={"push": False}), EVERY_CLUB: _layer(channels={"email": False})}
    ada = User(user_id=1, club_id=7)
    layers = layers_of(tenants, 7)
    assert decide(ada, None, club_id=7, type="news", channel="push", tenant=layers).status is None
    assert decide(ada, None, club_id=7, type="news", channel="email", tenant=layers).layer == "global"
    assert layers_of({}, 7) == TenantLayers()


def test_document_of_rules_is_read_as_it_was_written() -> None:
    rules = TenantPreferences(club_id=7, channels={"push": False}, categories={"news": {"email": True}}, version=40)
    assert TenantPreferences.read(rules.document) == rules


@pytest.mark.parametrize(
    "damage", [{"version": None}, {"club_id": "7"}, {"channels": None}, {"categories": []}, {"version": True}]
)
def test_malformed_document_of_rules_is_refused(damage: Mapping[str, Any]) -> None:
    document = TenantPreferences(club_id=7, channels={}, categories={}, version=1).document
    with pytest.raises(ValueError, match="malformed"):
        TenantPreferences.read({**document, **damage})
