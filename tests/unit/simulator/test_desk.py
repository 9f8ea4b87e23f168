"""The provider's own pages: usage by attempt, invoice, log, state, models, and the schedule of faults."""

from urllib.parse import quote

import httpx

from unit.simulator.conftest import Simulate
from unit.simulator.rig import MODEL, chat

CHAT = "/v1/chat/completions"


async def test_usage_is_answered_by_attempt_and_agrees_with_the_answer_and_the_invoice(
    simulate: Simulate, http: httpx.AsyncClient
) -> None:
    base = (await simulate()).base_url("p")
    attempt = "0190-äé/1 2"
    headers = {"x-tidegate-attempt-id": attempt.encode("latin-1").decode("latin-1")}
    answer = await http.post(
        base + CHAT, json=chat(), headers={k.encode(): v.encode("latin-1") for k, v in headers.items()}
    )
    usage = (await http.get(f"{base}/_sim/usage/{quote(attempt)}")).json()
    bill = (await http.get(base + "/_sim/invoice")).json()
    assert (usage["state"], usage["billed"]) == ("closed", True)
    assert usage["lines"] == bill["lines"]
    assert usage["totals"] == bill["totals"] == bill["models"]["m"]
    assert usage["totals"]["output"] == answer.json()["usage"]["completion_tokens"]
    expected = 3 * MODEL["input_uncached"] + usage["totals"]["output"] * MODEL["output"]
    assert bill["total_nanousd"] == expected // 10**6


async def test_an_attempt_nobody_made_is_unknown(simulate: Simulate, http: httpx.AsyncClient) -> None:
    usage = (await http.get((await simulate()).base_url("p") + "/_sim/usage/nobody")).json()
    assert (usage["state"], usage["lines"]) == ("unknown", [])


async def test_invoice_and_log_come_in_pages_and_sums_stay_whole(
    simulate: Simulate, http: httpx.AsyncClient
) -> None:
    base = (await simulate()).base_url("p")
    for number in range(5):
        await http.post(base + CHAT, json=chat(), headers={"x-tidegate-attempt-id": str(number)})
    bill = (await http.get(base + "/_sim/invoice?from=1&limit=2")).json()
    assert [line["attempt"] for line in bill["lines"]] == ["1", "2"]
    assert bill["totals"]["requests"] == 5
    records = (await http.get(base + "/_sim/log?from=3")).json()["records"]
    assert [record["ordinal"] for record in records] == [4, 5]
    assert (await http.get(base + "/_sim/log?from=x")).status_code == 400


async def test_the_log_shows_names_of_headers_and_never_their_values(
    simulate: Simulate, http: httpx.AsyncClient
) -> None:
    base = (await simulate(api_key="sk-secret")).base_url("p")
    await http.post(base + CHAT, json=chat(), headers={"authorization": "Bearer sk-secret"})
    await http.post(base + CHAT, json=chat(), headers={"authorization": "Bearer sk-guessed"})
    log = await http.get(base + "/_sim/log")
    assert [record["status"] for record in log.json()["records"]] == [200, 401]
    assert "authorization" in log.json()["records"][0]["header_names"]
    assert "sk-" not in log.text


async def test_state_shows_windows_balance_cache_and_what_is_in_flight(
    simulate: Simulate, http: httpx.AsyncClient
) -> None:
    simulator = await simulate(
        billing="prepaid",
        balance_nanousd=10**9,
        cache={"min_block_tokens": 1, "block_tokens": 1},
        windows=[{"duration_s": 18_000, "unit": "requests", "limit": 9, "kind": "first_request"}],
    )
    base = simulator.base_url("p")
    await http.post(base + CHAT, json=chat())
    state = (await http.get(base + "/_sim/state")).json()
    assert (state["in_flight"], state["cached_blocks"]) == (0, 2)
    assert state["balance_nanousd"] == 10**9 - simulator.invoices()["p"]["total_nanousd"]
    assert (state["windows"][0]["name"], state["windows"][0]["remaining"]) == ("5h", 8)


async def test_the_schedule_of_faults_can_be_replaced_while_running(
    simulate: Simulate, http: httpx.AsyncClient
) -> None:
    base = (await simulate()).base_url("p")
    put = await http.put(base + "/_sim/faults", json=[{"kind": "503"}])
    assert put.json() == {"rules": 1}
    assert (await http.post(base + CHAT, json=chat())).status_code == 503
    await http.put(base + "/_sim/faults", json=[])
    assert (await http.post(base + CHAT, json=chat())).status_code == 200
    for wrong in ([{"kind": "nonsense"}], {"kind": "503"}, [{"kind": "503", "every_n": 0}]):
        assert (await http.put(base + "/_sim/faults", json=wrong)).status_code == 400


async def test_models_need_the_key_and_the_simulators_pages_do_not(
    simulate: Simulate, http: httpx.AsyncClient
) -> None:
    base = (await simulate(api_key="k")).base_url("p")
    assert (await http.get(base + "/v1/models")).status_code == 401
    listed = await http.get(base + "/v1/models", headers={"x-api-key": "k"})
    assert [model["id"] for model in listed.json()["data"]] == ["m"]
    assert (await http.get(base + "/_sim/healthz")).json() == {"status": "ok", "provider": "p"}


async def test_unknown_paths_are_404_and_cost_nothing(simulate: Simulate, http: httpx.AsyncClient) -> None:
    simulator = await simulate()
    base = simulator.base_url("p")
    assert (await http.get(base + "/v1/nowhere")).json()["error"]["code"] == "unknown_url"
    assert (await http.get(base + CHAT)).status_code == 404
    assert simulator.engines["p"].log.lines == []


async def test_the_newest_requests_can_be_read_whole_but_for_their_keys(
    simulate: Simulate, http: httpx.AsyncClient
) -> None:
    base = (await simulate(keep_requests=1)).base_url("p")
    for text in ("first", "second"):
        await http.post(base + CHAT + "?beta=true", json=chat(text), headers={"x-api-key": "sk-secret"})
    (kept,) = (await http.get(base + "/_sim/requests")).json()["requests"]
    assert (kept["ordinal"], kept["path"], kept["query"]) == (2, CHAT, "beta=true")
    assert "second" in kept["body"]
    assert "sk-secret" not in str(kept)
