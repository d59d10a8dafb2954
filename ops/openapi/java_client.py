"""Generates the bodies and the methods of the Java client from the OpenAPI document.

python -m ops.openapi.java_client

openapi-generator 7.25 reads OpenAPI 3.1, but its classes have ids of 32 bits, refuse new values of a status, and send
the default of each member that is not set: 45,000 lines.
"""

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from masscomm_client import AsyncClient
from ops.openapi.document import document

FOLDER = Path(__file__).parents[2] / "sdk" / "java" / "src" / "main" / "java" / "masscomm" / "client"
_HEADER = """// Generated: python -m ops.openapi.java_client
package masscomm.client;
"""
_LINE = 120
# The methods of the Python client by the operation of their request. The Java client has the same ones.
METHODS = {
    "delete_audience": "delete_audience",
    "delete_event_type": "delete_event_type",
    "delete_schedule": "delete_schedule",
    "delete_source": "delete_source",
    "delete_subscription": "delete_subscription",
    "delete_suppression": "remove_suppression",
    "delete_tenant_preferences": "delete_tenant_preferences",
    "delete_webhook": "delete_webhook",
    "get_alarms": "alarms",
    "get_audience": "audience",
    "get_audiences": "audiences",
    "get_categories": "categories",
    "get_category": "category",
    "get_dead_letter": "dead_letter",
    "get_dead_letters": "dead_letters",
    "get_device_counts": "device_counts",
    "get_devices": "devices",
    "get_event_type": "event_type",
    "get_event_types": "event_types",
    "get_health": "health",
    "get_latency": "latency",
    "get_message": "message",
    "get_metrics": "metrics",
    "get_notification": "notification",
    "get_overview": "overview",
    "get_preferences": "preferences",
    "get_recipients": "recipients",
    "get_schedule": "schedule",
    "get_schedules": "schedules",
    "get_send": "get_send",
    "get_sends": "sends",
    "get_source": "source",
    "get_sources": "sources",
    "get_subscription": "subscription",
    "get_subscriptions": "subscriptions",
    "get_suppressions": "suppressions",
    "get_templates": "templates",
    "get_tenant_preferences": "tenant_preferences",
    "get_user": "user",
    "get_user_notifications": "user_notifications",
    "get_webhook": "webhook",
    "get_webhook_dead_letters": "webhook_dead_letters",
    "get_webhook_deliveries": "webhook_deliveries",
    "get_webhook_log": "webhook_log",
    "get_webhook_metrics": "webhook_metrics",
    "get_webhooks": "webhooks",
    "patch_send": "reschedule",
    "patch_webhook": "change_webhook",
    "post_batch": "send_batch",
    "post_cancel": "cancel",
    "post_count": "count_audience",
    "post_device_enable": "enable_device",
    "post_discard": "discard_dead_letter",
    "post_dry_run": "dry_run",
    "post_events": "report_events",
    "post_matches": "matching_subscriptions",
    "post_pause": "pause",
    "post_preview": "preview",
    "post_replay": "replay_dead_letter",
    "post_resume": "resume",
    "post_schedule_pause": "pause_schedule",
    "post_schedule_resume": "resume_schedule",
    "post_send": "send",
    "post_source": "create_source",
    "post_subscription": "create_subscription",
    "post_webhook": "create_webhook",
    "post_webhook_dead_letters_ack": "acknowledge_webhook_dead_letters",
    "post_webhook_dead_letters_replay": "replay_webhook_dead_letters",
    "post_webhook_resend": "resend_webhook",
    "post_webhook_rotate": "rotate_webhook",
    "post_webhook_test": "test_webhook",
    "post_webhook_test_of_type": "test_webhook_type",
    "put_audience": "save_audience",
    "put_category": "set_category",
    "put_event_type": "set_event_type",
    "put_preferences": "set_preferences",
    "put_schedule": "save_schedule",
    "put_source": "set_source",
    "put_tenant_preferences": "set_tenant_preferences",
}
# Operations after which their subject is no longer in its list.
_REMOVING = (
    *(
        "delete_audience",
        "delete_event_type",
        "delete_schedule",
        "delete_source",
        "delete_subscription",
        "delete_suppression",
        "delete_webhook",
    ),
    "post_device_enable",
)
# JSON type → the type in Java and its reader in Body. The type of a required member is a primitive one.
_SIMPLE = {
    "string": ("String", "TEXT"),
    "integer": ("Long", "INTEGER"),
    "number": ("Double", "NUMBER"),
    "boolean": ("Boolean", "BOOLEAN"),
}
# Names of fields that are keywords of Java.
_KEYWORDS = {"if"}
_PRIMITIVE = {"Long": "long", "Double": "double", "Boolean": "boolean"}


def java_client() -> dict[str, str]:
    """Return the text of each generated file by its name."""
    described = document()
    components: Mapping[str, Any] = described["components"]["schemas"]
    operations = {
        operation["operationId"]: (method.upper(), path, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    }
    read, written = (_in(part, components, operations) for part in ("responses", "requestBody"))
    # Routes of one subject have the same parameters.
    filters = {
        _filters_name(operations[name][2]): _filters(operations[name][2])
        for name in METHODS
        if _parameters(operations[name][2])
    }
    types = [
        *(
            _type_of(name, schema, components, is_read=name in read, is_written=name in written)
            for name, schema in components.items()
        ),
        *filters.values(),
    ]
    routes = [_route(*operations[name], components) for name in METHODS]
    return {"Types.java": _types(types), "Routes.java": _routes(routes)}


def _types(types: Iterable[str]) -> str:
    comment = _comment(
        "The bodies of requests and responses, and the parameters of lists. A method with a name alone "
        "returns a member, or null if the API may leave it out. A method with a value sets a member."
    )
    return f"""{_HEADER}
import java.util.List;
import java.util.Map;

{comment}public final class Types {{
    private Types() {{}}

{textwrap.indent("\n".join(sorted(types, key=_name_in)), "    ", lambda line: bool(line.strip()))}}}
"""


def _name_in(text: str) -> str:
    return text.partition("public static final class ")[2].split()[0]


def _routes(routes: Iterable[str]) -> str:
    return f"""{_HEADER}
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import masscomm.client.Types.*;

/** The routes of the API. */
abstract class Routes {{
    Routes() {{}}

    /** Return the response to a request, which is repeated where that is safe. */
    abstract <T> T execute(Call call, Function<Map<String, Object>, T> type);

    /** Return the rows of a list, from all pages. */
    abstract <T> Results<T> rows(String path, Body filters, Function<Map<String, Object>, T> type);

{textwrap.indent("\n".join(routes), "    ", lambda line: bool(line.strip()))}}}
"""


def _in(part: str, components: Mapping[str, Any], operations: Mapping[str, tuple[str, str, Any]]) -> set[str]:
    """Return the names of the schemas in a part of each operation, `requestBody` or `responses`."""
    found: set[str] = set()
    waiting = [name for _, _, operation in operations.values() for name in _references(operation.get(part))]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(components[name])
    return found


def _references(value: Any) -> Iterator[str]:
    """Yield the names of the schemas to which a part of the document refers."""
    if isinstance(value, Mapping):
        if str(value.get("$ref")).startswith("#/components/schemas/"):
            yield value["$ref"].rpartition("/")[2]
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def _type_of(
    name: str, schema: Mapping[str, Any], components: Mapping[str, Any], *, is_read: bool, is_written: bool
) -> str:
    if "enum" in schema:
        return _constants(name, schema)
    lines = [f"public static final class {name} extends Body {{"]
    if is_written:
        lines += [f"    public {name}() {{ this(Map.of()); }}\n"]
    lines += [f"    {name}(Map<String, ?> members) {{ super(members); }}\n"]
    for member, value in schema["properties"].items():
        if is_read:
            lines += [_indented(_getter(member, value, member in schema.get("required", ()), components))]
        if is_written:
            lines += [_indented(_setter(name, member, value, components))]
    return _comment(schema.get("description", f"The members of {name}.")) + "\n".join(lines) + "}\n"


def _constants(name: str, schema: Mapping[str, Any]) -> str:
    """Return a class with the texts of an enumeration. A later version of the API may have further ones."""
    lines = [f"public static final class {name} {{"]
    for value in schema["enum"]:
        constant = re.sub(r"\W", "_", value).upper()
        lines += [f'    public static final String {constant} = "{value}";']
    described = schema.get("description", f"The values of {name}.")
    comment = _comment(f"{described} A later version of the API may have further ones.")
    return comment + "\n".join([*lines, f"\n    private {name}() {{}}"]) + "\n}\n"


def _getter(member: str, schema: Mapping[str, Any], is_required: bool, components: Mapping[str, Any]) -> str:
    type_, reader = _java(schema, components)
    is_required = is_required and not _is_nullable(schema)
    shown = _PRIMITIVE.get(type_, type_) if is_required else type_
    read = "required" if is_required else "optional"
    method = f'public {shown} {_camel(member)}() {{ return {read}("{member}", {reader}); }}\n'
    return _comment(schema["description"]) + method if "description" in schema else method


def _setter(name: str, member: str, schema: Mapping[str, Any], components: Mapping[str, Any]) -> str:
    type_, _ = _java(schema, components)
    shown = type_ if _is_nullable(schema) else _PRIMITIVE.get(type_, type_)
    method = f'public {name} {_camel(member)}({shown} value) {{ set("{member}", value); return this; }}\n'
    return _comment(schema["description"]) + method if "description" in schema else method


def _filters(operation: Mapping[str, Any]) -> str:
    """Return the class of the parameters of a list, apart from the cursor, which the client sets."""
    name = _filters_name(operation)
    lines = [f"public static final class {name} extends Body {{"]
    lines += [f"    public {name}() {{ this(Map.of()); }}\n"]
    lines += [f"    {name}(Map<String, ?> members) {{ super(members); }}\n"]
    for each in _parameters(operation):
        schema = each["schema"]
        is_list = schema.get("type") == "array"
        type_, _ = _java(schema["items"] if is_list else schema, {})
        comment = _comment(each["description"]) if "description" in each else ""
        parameter = f"{_PRIMITIVE.get(type_, type_)}{'... values' if is_list else ' value'}"
        body = f'set("{each["name"]}", {"values" if is_list else "value"}); return this;'
        lines += [_indented(f"{comment}public {name} {_camel(each['name'])}({parameter}) {{ {body} }}\n")]
    return _comment(f"The parameters of {{@link Client#{_method_name(operation)}}}.") + "\n".join(lines) + "}\n"


def _parameters(operation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in operation.get("parameters", ()) if each["in"] == "query" and each["name"] != "cursor"]


def _filters_name(operation: Mapping[str, Any]) -> str:
    return "".join(word.capitalize() for word in operation["operationId"].split("_")[1:]) + "Filters"


def _method_name(operation: Mapping[str, Any]) -> str:
    return _camel(METHODS[operation["operationId"]])


def _route(method: str, path: str, operation: Mapping[str, Any], components: Mapping[str, Any]) -> str:
    """Return the methods of an operation: the shorter ones leave out filters and the idempotency key."""
    python = getattr(AsyncClient, METHODS[operation["operationId"]])
    response = _response(operation)
    is_list = str(inspect.signature(python).return_annotation).startswith("AsyncIterator")
    subjects = [(_subject_type(name), _camel(name)) for name in re.findall(r"\{(\w+)\}", path)]
    words = ", ".join(f'"{part}"' if part[0] != "{" else _camel(part[1:-1]) for part in path.split("/")[2:])
    call = f"Call.path({words})"
    arguments, body = _body_arguments(operation, components)
    arguments = [*subjects, *arguments]
    if is_list:
        (row,) = _references(components[response]["properties"]["rows"])
        result, statement = f"Results<{row}>", f"rows({call}, filters, {row}::new)"
    else:
        path_ = f"Call.query({call}, filters.members())" if _parameters(operation) else call
        made = f'new Call("{method}", {path_})' + (f".with({body})" if body else "")
        made += ".once(idempotencyKey)" if _has_key(operation) else ""
        made += "".join(f'.header("{name}", {_CONDITIONS[name]})' for name in _conditions(operation))
        made += _removed(operation, components[response], subjects)
        result, statement = response, f"execute({made}, {response}::new)"
        if len(statement) > _LINE - 16:
            statement = f"execute(\n            {made},\n            {response}::new)"
    optional = [("String", "idempotencyKey", "null")] if _has_key(operation) else []
    optional += [("String", _CONDITIONS[name], "null") for name in _conditions(operation)]
    if _parameters(operation):
        name = _filters_name(operation)
        optional.insert(0, (name, "filters", f"new {name}()"))
    description = (inspect.getdoc(python) or "").replace("Yield", "Return", 1)
    methods = []
    # A method with the first of them alone, such as the filters, and one without any.
    for given in range(min(len(optional), 2)):
        if any(each["required"] for each in _parameters(operation)) and given == 0:
            continue
        own = [*arguments, *((type_, name) for type_, name, _ in optional[:given])]
        values = ", ".join([name for _, name in own] + [default for *_, default in optional[given:]])
        methods += [_method(description, result, _method_name(operation), own, f"{_method_name(operation)}({values})")]
    full = [*arguments, *((type_, name) for type_, name, _ in optional)]
    return "\n".join([*methods, _method(description, result, _method_name(operation), full, statement)])


# The headers with the conditions of a change, and their parameters.
_CONDITIONS = {"If-Match": "ifMatch", "If-None-Match": "ifNoneMatch"}
_PARAMETERS = {
    "body": "the body of the request",
    "filters": "the parameters of the request",
    "ifMatch": "the entity tags of which the subject must have one, or null",
    "ifNoneMatch": "the entity tags of which the subject may have none ({@code *}: it must be absent), or null",
    "idempotencyKey": "the same for each repetition of the request; null: one is made for the attempts of this call",
}


def _method(description: str, result: str, name: str, arguments: list[tuple[str, str]], statement: str) -> str:
    tags = [
        f"@param {each} {_PARAMETERS.get(each, f'the member {{@code {_snake(each)}}} of the path or the body')}"
        for _, each in arguments
    ]
    given = ", ".join(f"{type_} {each}" for type_, each in arguments)
    comment = _comment(description, *tags, "@return the body of the response")
    return f"{comment}public {result} {name}({given}) {{\n    return {statement};\n}}\n"


def _body_arguments(
    operation: Mapping[str, Any], components: Mapping[str, Any]
) -> tuple[list[tuple[str, str]], str | None]:
    """Return the arguments for the body of a request, and its expression. The only member of a body is an argument."""
    if "requestBody" not in operation:
        return [], None
    (name,) = _references(operation["requestBody"])
    properties = components[name]["properties"]
    if len(properties) > 1:
        return [(name, "body")], "body.members()"
    ((member, schema),) = properties.items()
    argument = _camel(member)
    return [(_java(schema, components)[0], argument)], f"new {name}().{argument}({argument}).members()"


def _response(operation: Mapping[str, Any]) -> str:
    (content,) = (answer["content"] for status, answer in operation["responses"].items() if status[0] == "2")
    return str(content["application/json"]["schema"]["$ref"].rpartition("/")[2])


def _conditions(operation: Mapping[str, Any]) -> list[str]:
    """Return the headers with the conditions of a change."""
    return [each["name"] for each in operation.get("parameters", ()) if each["name"] in _CONDITIONS]


def _has_key(operation: Mapping[str, Any]) -> bool:
    return any(each["name"] == "Idempotency-Key" for each in operation.get("parameters", ()))


def _removed(operation: Mapping[str, Any], schema: Mapping[str, Any], subjects: list[tuple[str, str]]) -> str:
    """Return what an operation that removes its subject answers if an earlier attempt has removed it."""
    if operation["operationId"] not in _REMOVING:
        return ""
    constants = {name: value["const"] for name, value in schema["properties"].items() if "const" in value}
    (id_,) = schema["properties"].keys() - constants
    ((_, subject),) = subjects
    members = "".join(f', "{name}", "{value}"' for name, value in constants.items())
    return f'.removing(Map.of("{id_}", {subject}{members}))'


def _subject_type(name: str) -> str:
    return "long" if name in ("user_id", "device_id") else "String"


def _is_nullable(schema: Mapping[str, Any]) -> bool:
    return {"type": "null"} in schema.get("anyOf", ()) or schema.get("type") == "null"


def _java(schema: Mapping[str, Any], components: Mapping[str, Any]) -> tuple[str, str]:
    """Return the type of a value in Java, and the expression that reads it."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return ("String", "TEXT") if "enum" in components[name] else (name, f"body({name}::new)")
    choices = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(choices) == 1:
        return _java(choices[0], components)
    type_ = schema.get("type", "string" if "enum" in schema else None)
    if type_ == "array":
        item, reader = _java(schema["items"], components)
        # A list of texts is also one of texts or objects.
        is_mixed = any("$ref" in each for each in schema["items"].get("anyOf", ()))
        return "List<?>" if is_mixed else f"List<{item}>", f"listOf({reader})"
    if type_ == "object":
        values = schema["additionalProperties"]
        value, reader = ("Object", "ANY") if values is True else _java(values, components)
        return f"Map<String, {value}>", f"mapOf({reader})"
    return _SIMPLE.get(type_, ("Object", "ANY")) if isinstance(type_, str) else ("Object", "ANY")


def _camel(name: str) -> str:
    first, *others = name.split("_")
    camel = first + "".join(word.capitalize() for word in others)
    return f"{camel}_" if camel in _KEYWORDS else camel


def _snake(name: str) -> str:
    return re.sub(r"([A-Z])", r"_\1", name).lower()


def _indented(text: str) -> str:
    return textwrap.indent(text, "    ", lambda line: bool(line.strip()))


def _comment(description: str, *tags: str) -> str:
    """Return a Javadoc comment. Code between backticks becomes {@code}."""
    parts = re.split(r"(`[^`]*`|\{@\w+ [^}]*\})", " ".join(description.split()))
    text = "".join(_code(part) if part[:1] in ("`", "{") else _escaped(part) for part in parts)
    text = text if text.rstrip().endswith((".", "}")) else f"{text}."
    lines = [line for part in (text, *tags) for line in textwrap.wrap(part, _LINE - 12, break_long_words=False)]
    if not tags and len(lines) == 1:
        return f"/** {lines[0]} */\n"
    if tags:
        lines.insert(len(textwrap.wrap(text, _LINE - 12, break_long_words=False)), "")
    return "\n".join(["/**", *(f" * {line}".rstrip() for line in lines), " */"]) + "\n"


def _code(part: str) -> str:
    return part if part[0] == "{" else f"{{@code {part.strip('`')}}}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")


if __name__ == "__main__":
    for file, source in java_client().items():
        (FOLDER / file).write_text(source)
