"""The conversation in a list of response items: turns, results, ids and encrypted thoughts."""

from collections.abc import Mapping
from typing import Any

from tidegate.simulator.ask import spoken
from tidegate.simulator.refusal import Refusal, invalid
from tidegate.simulator.transcript import Seal, Talk, Transcript, Words

_WORDS = Words(
    unanswered="No tool output found for function call {id}.",
    unexpected="No tool call found for function call output with call_id {id}.",
    duplicate="",
    param="input",
)
_DUPLICATE = "Duplicate item found with id {id}. Remove duplicate items from your input and try again."
_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}


def told(items: list[dict[str, Any]]) -> Talk:
    """What the items tell; the first mistake a vendor would refuse is in it."""
    script = Transcript(_WORDS, ordered=False)
    for place, item in enumerate(items):
        _tell(script, item, f"input[{place}]")
    return script.talk("input")


def _tell(script: Transcript, item: Mapping[str, Any], where: str) -> None:
    kind = item.get("type")
    _check_id(script, item, where)
    match kind:
        case "message" if item.get("role") == "assistant":
            script.assistant(where)
        case "message":
            script.user(where)
        case "function_call" | "custom_tool_call":
            script.assistant(where)
            script.call(str(item.get("call_id")), where)
        case "function_call_output" | "custom_tool_call_output":
            script.result(str(item.get("call_id")), spoken(item.get("output")), where)
        case "reasoning":
            script.assistant(where)
            _check_thoughts(script, item)
        case "item_reference":
            script.refuse(_lost(item))
        case _:
            pass


def _check_id(script: Transcript, item: Mapping[str, Any], where: str) -> None:
    identity = item.get("id")
    if not isinstance(identity, str):
        return
    script.item(identity, _DUPLICATE)
    prefix = _PREFIXES.get(str(item.get("type")))
    if prefix is not None and not identity.startswith(prefix):
        text = f"Invalid '{where}.id': '{identity}'. Expected an ID that begins with '{prefix}'."
        script.refuse(Refusal(400, text, param=f"{where}.id", code="invalid_value"))


def _check_thoughts(script: Transcript, item: Mapping[str, Any]) -> None:
    found = item.get("encrypted_content")
    if isinstance(found, str):
        refusal = Refusal(
            400,
            f"The encrypted content {found[:12]}... could not be verified. Reason: Encrypted content could not "
            "be decrypted or parsed.",
            code="invalid_encrypted_content",
        )
        script.seal(Seal(None, found, refusal))
    elif not item.get("kept"):
        script.refuse(_lost(item))


def _lost(item: Mapping[str, Any]) -> Refusal:
    text = (
        f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false. Try "
        "again with `store` set to true, or remove this item from your input."
    )
    return invalid(text, "input")
