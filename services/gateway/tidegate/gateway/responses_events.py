"""What one event of a responses stream means; pure."""

from typing import Any

from tidegate.gateway.stream_events import Meaning, Reading, is_escaped, object_of


class ResponsesEvents:
    """`response.created` … `response.completed`; the type inside the data decides, the event name where it is
    missing."""

    content_mark = b'"delta"'

    def may_matter(self, block: bytes) -> bool:
        """A terminal event, an error, or a web search, which is billed also when the stream breaks later."""
        return (
            b"response.completed" in block
            or b"response.incomplete" in block
            or b"response.failed" in block
            or b"error" in block
            or b'"web_search_call"' in block
            or is_escaped(block)
        )

    def read(self, name: bytes, data: bytes, reading: Reading) -> Meaning:
        """See Vocabulary."""
        if data.strip() == b"[DONE]":
            return Meaning.OTHER
        event = object_of(data)
        if event is None:
            return Meaning.MALFORMED
        kind = event.get("type")
        if not isinstance(kind, str):
            kind = name.decode("utf-8", "replace")
        response = event.get("response")
        if isinstance(response, dict):
            self._read_response(response, reading)
        if kind in {"response.failed", "error"}:
            reading.error = {"error": self._error_of(event, response)}
            return Meaning.ERROR
        if kind in {"response.completed", "response.incomplete"}:
            return Meaning.TERMINAL
        if kind == "response.output_item.done":
            reading.usage.observe_item(event.get("item"))
        return Meaning.CONTENT if self._is_content(kind, event) else Meaning.OTHER

    def _read_response(self, response: dict[str, Any], reading: Reading) -> None:
        reading.usage.observe(response.get("usage"), response.get("service_tier"))
        reading.usage.observe_output(response.get("output") or None)
        model = response.get("model")
        if reading.model is None and isinstance(model, str):
            reading.model = model or None

    def _error_of(self, event: dict[str, Any], response: Any) -> dict[str, Any]:
        """`response.failed` holds it in its response; `error` is flat, or nests it as other dialects do."""
        inside = response.get("error") if isinstance(response, dict) else event.get("error")
        if isinstance(inside, dict):
            return inside
        return {name: event.get(name) for name in ("code", "message", "param")}

    def _is_content(self, kind: str, event: dict[str, Any]) -> bool:
        """Any delta that is not empty, and items that come whole: sealed reasoning, results of server tools."""
        return (kind.endswith(".delta") and bool(event.get("delta"))) or kind in {
            "response.output_item.done",
            "response.image_generation_call.partial_image",
        }
