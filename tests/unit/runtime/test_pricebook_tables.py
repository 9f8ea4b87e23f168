"""Prices from elsewhere: read exactly, written so that they read back, compared number by number."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.shared_data import shared_data
from tidegate.events.config import DatedPrice, VariantPrice
from tidegate.runtime.pricebook import csv_table, litellm, price_file
from tidegate.runtime.pricebook.book import built_in, read_genai
from tidegate.runtime.pricebook.compare import Difference, compare
from tidegate.runtime.pricebook.entries import NUMBERS, PER_MILLION, ModelPrices, Unreadable, variant_key

USD = PER_MILLION
FULL: dict[str, Any] = {
    "mode": "chat",
    "litellm_provider": "openai",
    "input_cost_per_token": 2e-06,
    "output_cost_per_token": 8e-06,
    "cache_read_input_token_cost": 5e-07,
    "cache_creation_input_token_cost": 2.5e-06,
    "cache_creation_input_token_cost_above_1hr": 4e-06,
    "output_cost_per_reasoning_token": 9e-06,
    "input_cost_per_audio_token": 4e-05,
    "input_cost_per_image_token": 3e-06,
    "cache_read_input_audio_token_cost": 1e-06,
    "output_cost_per_audio_token": 8e-05,
    "output_cost_per_image_token": 1.2e-04,
    "input_cost_per_request": 0.005,
    "search_context_cost_per_query": {"search_context_size_medium": 0.01},
    "input_cost_per_token_above_200k_tokens": 4e-06,
    "cache_creation_input_token_cost_above_1hr_above_200k_tokens": 8e-06,
    "input_cost_per_token_batches": 1e-06,
    "output_cost_per_token_above_200k_tokens_priority": 3e-05,
    "input_cost_per_token_flex": None,
    "max_input_tokens": 1_000_000,
    "input_cost_per_token_ultrafast": 1.0,
}


def table(**entries: Any) -> litellm.LiteLlmTable:
    return litellm.read(json.dumps(entries).encode(), "t")


@pytest.mark.parametrize(
    ("name", "searches", "requests"),
    [("gpt-4o-search-preview", None, 25_000), ("gpt-4o", 25_000, None), ("x/gpt-5-search-api", None, 25_000)],
)
def test_a_model_that_always_searches_has_its_fee_by_the_request(
    name: str, searches: int | None, requests: int | None
) -> None:
    fields = {"mode": "chat", "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06}
    query = {"search_context_cost_per_query": {"search_context_size_medium": 0.025}}
    ((price,),) = (each.prices for each in table(**{name: fields | query}).models)
    assert (price.web_search, price.request) == (
        searches and searches * USD,
        requests and requests * USD,
    )


def test_every_class_length_and_tier_of_litellm_is_read_exactly() -> None:
    (found,) = table(**{"gpt-x": FULL}).models
    assert found == ModelPrices(
        id="openai/gpt-x",
        prices=(
            DatedPrice(
                input_uncached=2 * USD,
                output=8 * USD,
                cache_read=USD // 2,
                cache_write_5m=5 * USD // 2,
                cache_write_1h=4 * USD,
                reasoning=9 * USD,
                input_audio=40 * USD,
                input_image=3 * USD,
                cache_read_audio=USD,
                output_audio=80 * USD,
                output_image=120 * USD,
                request=5_000 * USD,
                web_search=10_000 * USD,
                source="t gpt-x, date unknown",
                variants=(
                    VariantPrice(above_input_tokens=200_000, input_uncached=4 * USD, cache_write_1h=8 * USD),
                    VariantPrice(service_tier="batch", input_uncached=USD),
                    VariantPrice(service_tier="priority", above_input_tokens=200_000, output=30 * USD),
                ),
            ),
        ),
    )


def test_ranges_of_litellm_begin_above_their_mark() -> None:
    spans = [
        {"input_cost_per_token": 5e-08, "output_cost_per_token": 4e-07, "range": [0, 256000.0]},
        {"input_cost_per_token": 2.5e-07, "output_cost_per_token": 2e-06, "range": [256000.0, 1000000.0]},
    ]
    (found,) = table(
        **{"dashscope/q": {"mode": "chat", "litellm_provider": "dashscope", "tiered_pricing": spans}}
    ).models
    (price,) = found.prices
    assert found.id == "dashscope/q"
    assert (price.input_uncached, price.output) == (USD // 20, 2 * USD // 5)
    (above,) = price.variants
    assert (above.above_input_tokens, above.input_uncached, above.output) == (256_000, USD // 4, 2 * USD)


@pytest.mark.parametrize(
    ("key", "provider", "name"),
    [
        ("gpt-4.1", "openai", "openai/gpt-4.1"),
        ("xai/grok-4", "xai", "x-ai/grok-4"),
        ("gemini/gemini-2.5-pro", "gemini", "google/gemini-2.5-pro"),
        ("anthropic.claude-x", "bedrock", "aws/anthropic.claude-x"),
        ("azure_ai/gpt-x", "azure_ai", "azure/gpt-x"),
        ("azure/gpt-x", "azure_ai", "azure/gpt-x"),
        ("fireworks_ai/accounts/f/models/m", "fireworks_ai", "fireworks/accounts/f/models/m"),
        ("meta/llama", "replicate", "replicate/meta/llama"),
    ],
)
def test_models_of_litellm_have_the_names_of_the_book(key: str, provider: str, name: str) -> None:
    (found,) = table(**{key: {**FULL, "litellm_provider": provider}}).models
    assert found.id == name


def test_what_is_not_billed_by_the_token_is_left_out_with_its_reason() -> None:
    found = table(
        picture={"mode": "image_generation"},
        text="x",
        half={"mode": "chat", "litellm_provider": "p", "input_cost_per_token": 1e-06},
        odd={**FULL, "input_cost_per_token": -1},
        one=FULL,
        two={**FULL, "mode": "embedding", "litellm_provider": "voyage"},
        **{"openai/one": FULL},
    )
    assert [each.id for each in found.models] == ["openai/one", "voyageai/two"]
    assert found.left_out == {
        "picture": "not billed by the token",
        "text": "not billed by the token",
        "half": "no price for output",
        "odd": "`-1` is no price",
        "openai/one": "another entry is openai/one already",
    }


def test_embeddings_have_no_output_to_pay_for() -> None:
    (found,) = table(e={"mode": "embedding", "litellm_provider": "p", "input_cost_per_token": 1e-07}).models
    assert (found.prices[0].input_uncached, found.prices[0].output) == (USD // 10, 0)


@pytest.mark.parametrize("text", [b"{", b"[]", b"3"])
def test_what_is_no_table_of_litellm_is_refused(text: bytes) -> None:
    with pytest.raises(Unreadable, match=r"^t: "):
        litellm.read(text, "t")


def test_a_csv_is_read_by_the_names_of_its_columns() -> None:
    text = (
        "model,from,input_uncached,output,cache_read,web_search,source,note\n"
        "p/m,2026-03,2.5,10,0.25,10000,list of March,x\n"
        "p/m,,3,12,,,,\n"
        "p/n,2026-03-01T12:00:00+01:00,0,0,,,,\n"
    )
    found = csv_table.read(text, "f.csv")
    march = int(dt.datetime(2026, 3, 1, tzinfo=dt.UTC).timestamp()) * 10**9
    assert found == csv_table.CsvTable(
        [
            ModelPrices(
                id="p/m",
                prices=(
                    DatedPrice(input_uncached=3 * USD, output=12 * USD, source="f.csv, date unknown"),
                    DatedPrice(
                        from_ns=march, input_uncached=5 * USD // 2, output=10 * USD, cache_read=USD // 4,
                        web_search=10_000 * USD, source="list of March, date unknown",
                    ),
                ),
            ),
            ModelPrices(
                id="p/n",
                prices=(DatedPrice(from_ns=march + 11 * 3_600 * 10**9, input_uncached=0, output=0, source="f.csv, date unknown"),),
            ),
        ],
        {},
    )  # fmt: skip


def test_columns_that_others_use_are_known() -> None:
    text = "committed_at,provider,model,input_usd_per_mtok,output_usd_per_mtok,cache_write_usd_per_mtok,usd_per_1k_requests\n2026-01-01,p,m,1,2,3,5\n"
    ((found,), left_out) = csv_table.read(text, "f")
    assert not left_out
    assert found.id == "p/m"
    assert (found.prices[0].cache_write_5m, found.prices[0].request) == (3 * USD, 5_000 * USD)


def test_rows_that_are_no_price_are_left_out_by_line() -> None:
    text = "model,from,input_uncached,output\np/m,,1,\n,,1,2\np/m,someday,1,2\np/m,,-1,2\np/m,,1,2\n"
    found = csv_table.read(text, "f")
    assert [each.id for each in found.models] == ["p/m"]
    assert list(found.left_out) == ["f:2", "f:3", "f:4", "f:5"]
    assert found.left_out["f:3"] == "a row without `model`"
    assert found.left_out["f:5"] == "`-1` is no price"


@pytest.mark.parametrize("text", ["", "model,output\n", "input_uncached,output\n"])
def test_a_csv_without_the_columns_it_needs_is_refused(text: str) -> None:
    with pytest.raises(Unreadable, match="no column"):
        csv_table.read(text, "f")


TIERS = """model,from,service_tier,above_input_tokens,input_uncached,output,usd_per_1k_requests,source
p/m,2026-03,,,2,8,,list
p/m,2026-03,priority,,4,16,,
p/m,2026-03,,200000,3,,,
p/m,2026-03,priority,200000,6,24,5,call
p/m,2026-04,,,1,4,,list
"""


def test_service_tiers_and_lengths_of_a_csv_become_variants_of_their_date() -> None:
    ((found,), left_out) = csv_table.read(TIERS, "f", dt.date(2026, 11, 30))
    march, april = found.prices
    assert left_out == {}
    assert march.variants == (
        VariantPrice(above_input_tokens=200_000, input_uncached=3 * USD),
        VariantPrice(service_tier="priority", input_uncached=4 * USD, output=16 * USD),
        VariantPrice(
            service_tier="priority", above_input_tokens=200_000, input_uncached=6 * USD, output=24 * USD,
            request=5_000 * USD,
        ),
    )  # fmt: skip
    assert (march.input_uncached, march.output, march.source) == (
        2 * USD, 8 * USD, "list, f, call, looked up 2026-11-30",
    )  # fmt: skip
    assert (april.input_uncached, april.variants) == (USD, ())


@pytest.mark.unmeasured
@settings(max_examples=40)
@given(st.data())
def test_no_row_of_a_csv_is_lost_whatever_their_order(data: st.DataObject) -> None:
    header, *rows = TIERS.splitlines()
    mixed = data.draw(st.permutations(rows))
    (found,), left_out = csv_table.read("\n".join([header, *mixed]), "f")
    (usual,), _ = csv_table.read(TIERS, "f")
    assert not left_out
    assert [price.list_price() for price in found.prices] == [price.list_price() for price in usual.prices]


@pytest.mark.parametrize(
    ("row", "line"), [("p/m,2026-03,,,2,8,,list", 7), ("p/m,2026-03-01,priority,,4,17,,", 7)]
)
def test_a_second_row_of_the_same_model_date_tier_and_length_is_refused_by_both_lines(
    row: str, line: int
) -> None:
    first = 2 if ",,," in row[:16] else 3
    with pytest.raises(Unreadable, match=rf"^f:{line}: `p/m` has a price .* in f:{first}$"):
        csv_table.read(f"{TIERS}{row}\n", "f")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model,input_uncached,output,cache_reed\n", "f:1: unknown column `cache_reed`; known: "),
        ("model,input_uncached,output,\np/m,1,2,3\n", "f:1: unknown column ``"),
        ("model,input_uncached,output,output\n", "f:1: column `output` says what another says"),
        ("model,input_uncached,input_usd_per_mtok,output\n", "f:1: column `input_uncached` says what"),
        ("model,input_uncached,output\np/m,1,2\np/n,1,5,2\n", "f:3: more cells than columns"),
    ],
)
def test_what_a_csv_says_and_we_would_lose_is_refused_by_line_and_name(text: str, said: str) -> None:
    with pytest.raises(Unreadable) as caught:
        csv_table.read(text, "f")
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("rows", "line", "said"),
    [
        ("p/m,flex,,1,2,,\n", 2, "`p/m` has no row of the same date without service_tier"),
        ("p/m,,,1,2,,\np/m,Flex tier,,1,2,,\n", 3, "service_tier"),
        ("p/m,,,1,2,,\np/m,,0,1,2,,\n", 3, "above_input_tokens"),
        ("p/m,,,1,2,,\np/m,,many,1,2,,\n", 3, "above_input_tokens"),
        ("p/m,,,1,2,,\np/m,flex,,,,,\n", 3, "no price"),
        ("p/m,,,1,2,5,5\n", 2, "`usd_per_1k_requests` and `request` say the same"),
    ],
)
def test_rows_that_vary_no_price_are_left_out_by_line(rows: str, line: int, said: str) -> None:
    head = "model,service_tier,above_input_tokens,input_uncached,output,request,usd_per_1k_requests\n"
    found = csv_table.read(head + rows, "f")
    assert list(found.left_out) == [f"f:{line}"]
    assert said in found.left_out[f"f:{line}"]
    assert all(price.variants == () for each in found.models for price in each.prices)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("p/m,4052-03,1,2", "`4052-03` is not between 1970 and 2200"),
        ("p/m,1969-12-31,1,2", "`1969-12-31` is not between 1970 and 2200"),
        ("p/m,,1000001,2", "`1000001` is no price: more than a million dollars per million"),
        ("p/\x7fm,,1,2", "a name with letters that cannot be printed"),
    ],
)
def test_what_no_config_could_hold_is_left_out_by_line(row: str, said: str) -> None:
    found = csv_table.read(f"model,from,input_uncached,output\n{row}\n", "f")
    assert found == csv_table.CsvTable([], {"f:2": said})


def test_a_csv_that_cannot_be_cut_into_cells_is_refused_by_line() -> None:
    with pytest.raises(Unreadable, match=r"^f:2: field larger than field limit"):
        csv_table.read(f"model,input_uncached,output\np/m,1,{'2' * 200_000}\n", "f")


@pytest.mark.parametrize(
    "odd", [{"mode": []}, {"tiered_pricing": 5}, {"tiered_pricing": [{"range": []}]}, {"tiered_pricing": [5]}]
)
def test_an_entry_of_odd_shape_is_left_out_and_stops_no_import(odd: dict[str, Any]) -> None:
    usual = {
        "mode": "chat",
        "litellm_provider": "p",
        "input_cost_per_token": 1e-06,
        "output_cost_per_token": 1e-06,
    }
    found = table(a=usual | odd, b=usual)
    assert [each.id for each in found.models] == ["p/b"]
    assert list(found.left_out) == ["a"]
    assert found.left_out["a"].startswith("cannot be read: ")


def test_columns_beside_the_prices_are_no_mistake() -> None:
    found = csv_table.read("model,input_uncached,output,note,max_input_tokens\np/m,1,2,x,9\n", "f")
    assert (len(found.models), found.left_out) == (1, {})


def test_prices_of_litellm_that_we_cannot_say_are_named() -> None:
    fields = {
        "input_cost_per_image": 0.1, "output_cost_per_video_token": 0, "input_cost_per_character": None,
        "off_peak_pricing": {"x": 1},
        "tiered_pricing": [{"range": [9, 10], "input_cost_per_token": 1e-06, "output_cost_per_second": 1}],
        "search_context_cost_per_query": {
            "search_context_size_low": 0.01, "search_context_size_medium": 0.02, "search_context_size_high": 0.02,
        },
        "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06,
        "input_cost_per_token_ultrafast": 1e-06,
    }  # fmt: skip
    usual = {"mode": "chat", "litellm_provider": "p"}
    found = table(a=usual | fields, b=usual | {"input_cost_per_token": 1, "output_cost_per_token": 1})
    assert found.not_taken == {
        "p/a": (
            "input_cost_per_image",
            "off_peak_pricing",
            "tiered_pricing.output_cost_per_second",
            "search_context_cost_per_query.search_context_size_low",
            "input_cost_per_token_ultrafast",
        )
    }


def test_a_table_that_names_a_model_or_a_price_twice_is_refused() -> None:
    with pytest.raises(Unreadable, match=r"^t: `gpt` stands there twice$"):
        litellm.read(b'{"gpt": {}, "gpt": {}}', "t")
    with pytest.raises(Unreadable, match=r"^t: `mode` stands there twice$"):
        litellm.read(b'{"gpt": {"mode": 1, "mode": 1}}', "t")


@pytest.mark.parametrize("day", [None, dt.date(2026, 11, 30)])
def test_every_imported_price_tells_its_table_and_when_it_was_looked_up(day: dt.date | None) -> None:
    said = "date unknown" if day is None else "looked up 2026-11-30"
    usual = {"mode": "chat", "input_cost_per_token": 1, "output_cost_per_token": 1}
    long = "x" * 400
    text = json.dumps({"gpt": usual, long: usual}).encode()
    models = [
        *litellm.read(text, "t", day).models,
        *csv_table.read(f"model,input_uncached,output,source\np/m,1,2,\np/n,1,2,{long}\n", "t", day).models,
    ]
    assert len(models) == 4
    for price in (price for each in models for price in each.prices):
        assert price.source is not None
        assert price.source.endswith(f", {said}")
        assert len(price.source) <= 256


numbers = st.none() | st.integers(0, 10**13)
texts = st.text(
    st.characters(min_codepoint=32, exclude_characters="\x7f", codec="utf-8"), min_size=1, max_size=40
)
variants = st.builds(
    VariantPrice, above_input_tokens=st.none() | st.integers(1, 10**9), service_tier=st.sampled_from(["batch", "flex"]),
    **dict.fromkeys(NUMBERS, numbers),
)  # fmt: skip
dated = st.builds(
    DatedPrice, from_ns=st.integers(0, 4 * 10**9).map(lambda s: s * 10**9) | st.integers(0, 2**62),
    source=st.none() | texts, variants=st.lists(variants, max_size=2, unique_by=variant_key).map(tuple), **dict.fromkeys(NUMBERS, numbers),
)  # fmt: skip


lists_of_prices = st.lists(dated, min_size=1, max_size=3, unique_by=lambda each: each.from_ns).map(
    lambda prices: tuple(sorted(prices, key=lambda each: each.from_ns))
)


@pytest.mark.unmeasured
@settings(max_examples=25)
@given(
    st.lists(
        st.builds(ModelPrices, id=texts, prices=lists_of_prices),
        max_size=3,
        unique_by=lambda each: each.id,
    )
)
def test_a_price_file_reads_back_as_what_was_written(models: list[ModelPrices]) -> None:
    assert price_file.parse(price_file.written(models, "two\nlines"), "f") == tuple(models)


def test_a_price_file_that_is_wrong_is_told_by_line(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"^f: not valid TOML"):
        price_file.parse("[[", "f")
    text = '[[models]]\nid = "p/m"\n[[models.prices]]\ninput_uncached = "x"\ncolour = 3\n'
    with pytest.raises(Unreadable) as caught:
        price_file.parse(text, "f")
    assert str(caught.value).splitlines()[0].startswith("f:5: unknown key")
    assert "f:4: x is no amount of dollars" in str(caught.value)
    with pytest.raises(Unreadable, match="cannot be read: No such file"):
        price_file.read(tmp_path / "none.toml")
    (tmp_path / "latin").write_bytes(b"\xff")
    with pytest.raises(Unreadable, match="not UTF-8"):
        price_file.read(tmp_path / "latin")


def one(name: str, **fields: Any) -> ModelPrices:
    return ModelPrices(id=name, prices=(DatedPrice(**fields),))


def test_two_tables_are_compared_by_model_class_length_and_tier() -> None:
    ours = one(
        "p/m",
        input_uncached=1,
        output=2,
        cache_read=5,
        variants=(VariantPrice(service_tier="batch", output=1),),
    )
    theirs = one(
        "p/m", input_uncached=1, output=3, web_search=7,
        variants=(VariantPrice(service_tier="batch", output=2), VariantPrice(above_input_tokens=9, output=8)),
    )  # fmt: skip
    later = ModelPrices(id="p/later", prices=(DatedPrice(from_ns=100, input_uncached=1),))
    known = {"p/m": ours, "p/later": later}
    found = compare(known.get, [theirs, one("p/new", output=1), one("p/later", input_uncached=1), later], 50)
    assert (found.models, found.equal) == (1, 1)
    assert found.differences == [
        Difference("p/m", "output", None, None, 2, 3),
        Difference("p/m", "output", "batch", None, 1, 2),
    ]
    assert found.one_sided == [
        Difference("p/m", "cache_read", None, None, 5, None),
        Difference("p/m", "web_search", None, None, None, 7),
        Difference("p/m", "output", None, 9, None, 8),
    ]
    assert found.only_right == ["p/new", "p/later", "p/later"]


def test_the_book_and_litellm_agree_on_nearly_all_that_openai_and_anthropic_charge() -> None:
    file = shared_data("data/prices/litellm_model_prices_1.110.2.json.gz")
    table = litellm.read(gzip.decompress(file.read_bytes()), file.name)
    theirs = [each for each in table.models if each.provider in {"openai", "anthropic"}]
    at_ns = int(dt.datetime(2026, 11, 30, tzinfo=dt.UTC).timestamp()) * 10**9
    found = compare(built_in().get, theirs, at_ns)
    assert found.models > 100
    assert found.equal > 1_000
    assert {each.name for each in found.differences} == {"web_search"}


def test_the_shared_tables_can_be_imported_whole() -> None:
    for name, models in (("genai_prices_change_log", 1_600), ("price_panel_2024_2026", 1_400)):
        file = shared_data(f"data/prices/{name}.csv.gz")
        found = csv_table.read(gzip.decompress(file.read_bytes()).decode(), file.name)
        assert len(found.models) > models
        assert set(found.left_out.values()) <= {
            "no price for input_uncached and output",
            "`-1000000.0` is no price",
        }


@pytest.mark.parametrize("number", ["1e" + "5" * 60, "1e-" + "5" * 60])
@pytest.mark.parametrize("read", [litellm.read, read_genai])
def test_an_exponent_beyond_all_decimals_is_told_not_thrown(
    read: Callable[[bytes, str], object], number: str
) -> None:
    with pytest.raises(Unreadable, match=r"^t: not valid JSON"):
        read(b'{"m":{"input_cost_per_token":%b}}' % number.encode(), "t")
