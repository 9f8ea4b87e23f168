"""What the reference pages say beyond what the code declares: settings, error codes. A test misses a missing one."""

from __future__ import annotations

from tidegate.events import config
from tidegate.gateway.dialects.quirks import Quirks

TABLES: dict[str, type] = {
    "Top level": config.Settings,
    "[gateway]": config.GatewaySettings,
    "[log]": config.LogSettings,
    "[admin]": config.AdminSettings,
    "[metrics]": config.MetricsSettings,
    "[estimator]": config.EstimatorSettings,
    "[[tenants]]": config.Tenant,
    "[[keys]]": config.Key,
    "[[pools]]": config.Pool,
    "[pools.uvi]": config.UviLimits,
    "[pools.alarm]": config.AlarmCosts,
    "[[pools.windows]]": config.Window,
    "[[pools.windows.peaks]]": config.Peak,
    "[[targets]]": config.Target,
    "[targets.quirks]": Quirks,
    "[targets.deadlines]": config.Deadlines,
    "[[targets.prices]]": config.DatedPrice,
    "[[targets.prices.variants]]": config.VariantPrice,
    "[[routes]]": config.Route,
    "[[routes.candidates]]": config.Candidate,
}
"""Title of each table of the file → its struct."""

SETTINGS: dict[str, dict[str, str]] = {
    "Top level": {
        "data_dir": "Folder of everything on disk; a relative one counts from the config file's folder.",
        "data_key": "Reference to the key of session digests: 64 hex digits, or a file of 32 bytes. All gateways need the same"
        " one, for ever. Without it, `data.key` in the data folder, made at first start.",
        "durability": "`strict`: a settlement is on disk before the last bytes leave. `fast`: it is committed, and on"
        " disk within 50 ms; `kill -9` loses nothing, a power loss may.",
        "gateway": "The tenant listener.",
        "log": "The event log, the journals and the archive.",
        "admin": "The admin listener.",
        "metrics": "Numbers of a machine without an admin process.",
        "estimator": "The stream processor.",
        "tenants": "Who pays.",
        "keys": "API keys, by digest.",
        "pools": "Targets that share quota.",
        "targets": "Upstream deployments.",
        "routes": "What clients ask for as `model`.",
        "price_file": "Model prices that go before the built-in price book, as `tidegate prices import` writes them; a relative path"
        " counts from the config file's folder.",
    },
    "[gateway]": {
        "host": "Address of the tenant listener.",
        "port": "Its port; 0 takes a free one.",
        "workers": "Gateway processes that `tidegate serve` starts. Each has limits and a journal of its own.",
        "slot": "Name of the journal slots: `gw-0`, `gw-1`, … Keep it for the life of the data folder.",
        "max_body_bytes": "Largest request body.",
        "max_held_body_bytes": "Bodies that a worker holds together, and answers that slow clients have not taken; more bodies are"
        " refused with `overloaded`. A translated body is there twice; a stream's is let go of at its first word."
        " By default the workers share a quarter of the memory that they may use, at least one largest body each.",
        "max_in_flight": "Requests a worker serves at once; more are refused with `overloaded`.",
        "keepalive_s": "How long an idle client connection stays open.",
        "header_deadline_s": "From the first byte of a request to the end of its head.",
        "body_deadline_s": "From the end of the head to the end of the body.",
        "client_stall_s": "A client that takes no byte for so long ends its request as `client_slow`.",
        "silent_keepalive_s": "A stream without content for so long gets its head and a keep-alive line, and one more each time.",
        "drain_delay_s": "After TERM: how long `/readyz` says no before the listener closes.",
        "drain_grace_s": "After that: how long running requests may take before they are cut and settled.",
        "upstream_connections": "Connections a worker opens to one origin; further attempts wait in line for `connect_s`.",
    },
    "[log]": {
        "kind": "SQLite files in the data folder, or Apache Kafka.",
        "bootstrap": "Kafka's `host:port`, several with commas; required with `kafka`.",
        "topic_prefix": "Goes before every name in the cluster, transactional ids included.",
        "replication": "Copies of a Kafka record; 3 in production, of which two must be in sync.",
        "compression": "Of what is written to Kafka.",
        "tls": "Speak TLS with the brokers.",
        "ca_file": "PEM file of the authorities that sign the brokers' certificates; the system's by default.",
        "sasl": "How this machine names itself to the brokers. `PLAIN` sends the password as it is: use it with `tls`.",
        "username": "The user; required with `sasl`.",
        "password": "Reference to the user's password; required with `sasl`.",
        "journal_max_bytes": "More than this not yet relayed refuses new requests, until the relay has caught up.",
        "reserve_bytes": "Room on the journal's disk that only settlements may use.",
        "orphan_after_s": "A slot without an owner for so long is settled and closed by the relay.",
        "archive": "Whether this machine's log role archives. Without: the SQLite log is never deleted from and grows for"
        " ever; Kafka deletes at each topic's retention, and what no other machine archived is gone then.",
        "archive_after_s": "Age at which records go to the archive.",
    },
    "[admin]": {
        "host": "Address of the admin listener.",
        "port": "Its port; 0 takes a free one.",
        "token": "Reference to the admin credential. Without one a token is made at first start in `admin.token`.",
    },
    "[metrics]": {
        "host": "Address where the log role shows them.",
        "port": "Its port for `GET /metrics`; off without one. 0 takes a free one.",
        "token": "Reference to a token that scrapers must send as `Authorization: Bearer`. Without one they need none.",
    },
    "[estimator]": {
        "runner": "`log` reads any log; `faust` reads Kafka through faust-streaming.",
        "publish_every_s": "Least time between two commits of beliefs and positions.",
    },
    "[[tenants]]": {
        "id": "Name of the tenant.",
        "routes": "Routes it may use; all of them when left out.",
    },
    "[[keys]]": {
        "id": "Name of the key in events and reports.",
        "tenant": "Whose key it is.",
        "digest": "`sha256:` and the digest of the whole key; `tidegate keys new` prints both.",
        "routes": "Narrows the tenant's routes; never widens them.",
    },
    "[[pools]]": {
        "id": "Name of the pool.",
        "billing": "`flat`: a fee per period and nothing per token; needs a window.",
        "windows": "Its quota windows.",
        "admit_quantile": "Reserved: this version reads it and does not use it.",
        "uvi": "Where the statuses of its windows begin.",
        "alarm": "When its windows are said to run dry.",
        "fee_nanousd": "What a `flat` pool costs per `fee_period_s`: shown as the price per unit used (`tidegate prices`), no part of any"
        " decision, for it is paid anyway.",
        "fee_period_s": "Period of the fee; by default 30 days.",
    },
    "[pools.uvi]": {
        "stressed": "Index from which a window is stressed.",
        "critical": "Index from which it is critical.",
        "surplus": "Index up to which it is in surplus, late in the period.",
        "surplus_min_elapsed": "Share of the period that must have passed for that.",
        "hysteresis": "A status ends this much further back than it begins.",
    },
    "[pools.alarm]": {
        "false_alarm": "What it costs to act as if a window ran dry that does not, in any unit. A window is said to run dry"
        " (`will_exhaust`) where its chance is at least false_alarm / (false_alarm + miss).",
        "miss": "What it costs not to act where it does: with `miss = 4` from a chance of 0.2 on.",
    },
    "[[pools.windows]]": {
        "id": "Name of the window within its pool.",
        "unit": "What the provider counts.",
        "limit": "Units per period. Workers of one machine share what the beliefs say is left: a burst stays within it, but for the"
        " rounding of their shares (one request a worker). What another worker or machine has under way is seen once it is settled and"
        " folded, within a second: by so much may be asked beyond the limit, and the provider's refusal then closes the pool until its"
        " reset. Machines do not share: while the log is away, each may use what was last known to be left.",
        "duration_s": "Length of a period.",
        "kind": "`fixed`: periods start at `anchor` + k·duration. `first_request`: at the first use after the last ended. `rolling`:"
        " no periods, what was used in the last `duration_s` counts; counted in sixtieths of it, so that a use counts up to a sixtieth"
        " longer than at the provider, never shorter. Its forecasts look one `duration_s` ahead.",
        "anchor": "Start of one `fixed` period.",
        "scope": "The limit in the provider's headers that measures it: `unified-5h` of `anthropic-ratelimit-unified-5h-utilization`,"
        " `codex-primary` or `codex-secondary`, `requests` or `tokens` of `x-ratelimit-…`. What others of the same account use is then"
        " seen, counts against the window and is forecast as well. Not of a `rolling` window.",
        "percent_only": "The provider tells shares of it but no capacity: that is estimated from our own use, with its variance;"
        " `limit` is where it begins: its order of magnitude is enough, and it refuses nobody while nothing else is known. Needs `scope`.",
        "peaks": "Hours at which the provider counts units more often, or less; of several that hold, the first.",
    },
    "[[pools.windows.peaks]]": {
        "weight": "How often each request, token or dollar that is sent in these hours counts, together with the `quota_weight` of its model."
        " Forecasts and prices know it beforehand.",
        "from": "When the hours begin, as `09:00`, by the clock of `timezone`.",
        "to": "When they end; not in them. Where it is not after `from`, on the next day.",
        "days": "Days on which they begin; every day by default.",
        "timezone": "Name of a time zone (`America/Los_Angeles`). Its clocks are read from this machine's time zone data once, with the"
        " file: decisions are made by the offsets in the published config.",
        "offsets": "Filled in from `timezone`; not for files.",
    },
    "[[targets]]": {
        "id": "Name of the target. Another pool, provider, model or secret needs a new one: a published id is refused otherwise.",
        "dialect": "What the upstream speaks. Clients of the same dialect get its own bytes, those of another a translation, where"
        " the request loses nothing it needs; embeddings are never translated.",
        "base_url": "`https://host[:port][/path]`, with or without `/v1` at its end, without user, query or fragment; `http` only with"
        " `allow_private`.",
        "model": "The model's name there; it replaces the route's name in the body.",
        "secret": "Reference to the credential, 8 printable ASCII characters at least; sent as `Authorization: Bearer` (openai) or `x-api-key` (anthropic).",
        "provider": "Whose API it is (`openai`, `azure`, `x-ai`, `perplexity`, …): how this vendor reports usage is then known. Empty: the general rules.",
        "pool": "Pool it draws on; by default one of its own.",
        "prices": "Dated list prices, each with input and output. Without one in force, and with none observed, the target is refused as `price_unknown`.",
        "context_window": "Input and output tokens it can take together.",
        "max_output_tokens": "Most output tokens a request may ask for here.",
        "also_speaks": "Further dialects of the same model under the same `base_url`; the dialect decides the path.",
        "when_abandoned": "What becomes of an answer whose client left: `cancel` ends the call and estimates what is billed; `finish_whole` reads an answer without a stream to its end, which tells what is billed; `finish` streams, too. By default `finish_whole` in a pool that bills per token, `cancel` in a flat one.",
        "counts_tokens": "Has `/v1/messages/count_tokens` where it speaks `anthropic`; else token counts are estimated here.",
        "quirks": "Deviations from its dialects; requests are rewritten to them, also those of clients of the same dialect.",
        "vision": "Takes images.",
        "documents": "Takes files that are no plain text: PDFs and what else its dialect has.",
        "tools": "Takes tools.",
        "reasoning": "Takes requests that ask for reasoning.",
        "max_in_flight": "Attempts at once from all workers of a machine, shared out among them and rounded up; each machine has as many.",
        "allow_private": "Allows loopback and private addresses, and `http`. Metadata addresses stay refused.",
        "ca_file": "Absolute path of a PEM file of the authorities that sign this upstream; the system's by default.",
        "proxy": "HTTP proxy for CONNECT, `http://host:port`. The environment's proxies are never used.",
        "proxy_secret": "Reference to the proxy's `user:password`.",
        "deadlines": "Deadlines of one attempt.",
        "forward_headers": "Client headers passed on besides the dialect's own; each begins with `x-`.",
        "enabled": "False closes it until a kill-switch event opens it.",
        "quota_weight": "How often a request, token or dollar of its model counts in the windows of its pool, where the plan counts models"
        " unequally. In a window of `requests` it must come to whole ones: for a model that counts a quarter, multiply `limit` and the"
        " weights of the pool by four.",
        "price_book": "A model of the price book, `provider/model` (`tidegate prices list`): its prices, with their dates, are written into"
        " `prices` when the config is read. What `prices` says itself goes before them, for every length and tier.",
    },
    "[targets.quirks]": {
        "max_tokens_field": "Chat completions: the field that bounds the answer.",
        "reasoning_field": "Chat completions: the field in which thinking of earlier turns is sent back; empty = not at all.",
        "reasoning_details": "Chat completions: takes `reasoning_details` (signatures and sealed reasoning) in earlier turns.",
        "no_developer_role": "`developer` messages are sent as `system`.",
        "no_system_role": "Instructions are sent as user text.",
        "system_first_only": "Instructions after the first turn are sent as user text.",
        "system_anywhere": "Anthropic: takes `system` messages between the turns; else they are sent as user text.",
        "no_stream_options": "Chat completions: refuses `stream_options`; usage is then taken from whatever it reports.",
        "no_parallel_tool_calls": "Refuses the flag `parallel_tool_calls`.",
        "no_strict_tools": "Refuses `strict` on tools.",
        "no_custom_tools": "Chat completions: tools that take free text are sent as functions with one string.",
        "no_structured_output": "Takes no JSON schema for its answers: requests that need one are refused.",
        "no_sampling": "Refuses temperature, top_p and their like, as newer models do: they are dropped with a warning.",
        "no_reasoning_effort": "Refuses any field that steers reasoning: it is dropped with a warning.",
        "efforts": "The efforts it knows; any other becomes the nearest. Empty = all that its dialect has.",
        "thinking": "Anthropic: how thinking is asked for when the client gave an effort.",
        "default_max_output_tokens": "Anthropic requires `max_tokens`; used when the client gave none.",
        "auto_cache": "Anthropic: ask for caching of the whole prompt when the client set no mark, as OpenAI's clients expect.",
        "cache_control": "Chat completions: takes Anthropic's `cache_control` marks on content parts and tools.",
        "cache_key": "Chat completions: takes `prompt_cache_key`; clients of other dialects get one of their tenant and session.",
        "content_as_text": "Chat completions: takes message content as one string only.",
        "short_tool_ids": "Chat completions: takes ids of tool calls only if they are nine letters and digits; others are replaced.",
        "ends_without_done": "Chat completions: the stream ends after the finish reason, without `[DONE]`.",
    },
    "[targets.deadlines]": {
        "connect_s": "Resolve, wait for a free connection, connect, handshake.",
        "header_s": "From the request's last byte to the answer's head. Not of a model's answer without a stream: its head "
        "comes when it is finished, and only the route's `deadline_s` bounds it.",
        "first_token_s": "From the request's last byte to the first content of a stream.",
        "idle_s": "Between two reads of the answer; stands still while the client takes nothing.",
    },
    "[[targets.prices]]": {
        "from": "In force from then on; prices of a target have rising dates.",
        "input_uncached": "Per million input tokens that are not in a cache.",
        "cache_read": "Per million tokens read from a cache; without it they cost the uncached price.",
        "cache_write_5m": "Per million tokens written to a five-minute cache; without it they cost the dearest class.",
        "cache_write_1h": "The same for a one-hour cache.",
        "output": "Per million output tokens, reasoning included.",
        "reasoning": "Per million output tokens of reasoning, where they have a price of their own.",
        "input_audio": "Per million input tokens of sound; without it, as other input.",
        "input_image": "Per million input tokens of pictures; without it, as other input.",
        "cache_read_audio": "Per million tokens of sound read from a cache; without it, as other reads.",
        "output_audio": "Per million output tokens of sound; without it, as other output.",
        "output_image": "Per million output tokens of pictures; without it, as other output.",
        "web_search": "Per million searches that the provider runs by itself.",
        "request": "Per million requests, whatever they use.",
        "variants": "Other prices for long prompts and for service tiers.",
        "source": "Where the numbers come from and when they were looked up; for people.",
    },
    "[[targets.prices.variants]]": {
        "above_input_tokens": "Holds for requests with more input tokens, cached ones included, and then for all their tokens.",
        "service_tier": "Holds for requests that the provider says it served so: `batch`, `flex`, `priority`, `fast`. Without it, for"
        " all; of several that fit, those for a tier win, then those for longer prompts.",
        "input_uncached": "As above, for these requests; without it, what holds otherwise.",
        "cache_read": "As above, for these requests; without it, what holds otherwise.",
        "cache_write_5m": "As above, for these requests; without it, what holds otherwise.",
        "cache_write_1h": "As above, for these requests; without it, what holds otherwise.",
        "output": "As above, for these requests; without it, what holds otherwise.",
        "reasoning": "As above, for these requests; without it, what holds otherwise.",
        "input_audio": "As above, for these requests; without it, what holds otherwise.",
        "input_image": "As above, for these requests; without it, what holds otherwise.",
        "cache_read_audio": "As above, for these requests; without it, what holds otherwise.",
        "output_audio": "As above, for these requests; without it, what holds otherwise.",
        "output_image": "As above, for these requests; without it, what holds otherwise.",
        "web_search": "As above, for these requests; without it, what holds otherwise.",
        "request": "As above, for these requests; without it, what holds otherwise.",
    },
    "[[routes]]": {
        "name": "What clients send as `model`.",
        "candidates": "Targets that may serve it.",
        "strategy": "`cheapest`: lowest effective price within the best admissible grade. `declared`: as listed.",
        "deadline_s": "For the request as a whole, failover included.",
        "max_attempts": "Upstream calls one request may cause.",
        "max_cost_nanousd": "A candidate that is expected to cost more is refused as `cost_cap`.",
        "time_value_nanousd_per_s": "What a second of waiting is worth; 0 ignores speed.",
        "refusal_cost_nanousd": "What refusing a request costs; values scarce quota that has no metered alternative.",
        "max_ttft_p90_ms": "A target whose believed 90th percentile of time to first token is above it is refused.",
        "avoid_ejected": "Ranks targets believed (95 %) to fail more often than 1 in 20 after the others of their grade, whatever they cost, until their record is better or some twenty minutes old. `false`: failures weigh in the price alone.",
        "allow_downgrade": "Keeps lower grades in the plan, after all of the best admissible one; else they are refused as `grade`.",
    },
    "[[routes.candidates]]": {
        "target": "Id of the target.",
        "grade": "Answer quality within this route, 0 is best; equal grades are equal substitutes.",
        "priority": "Decides between equal prices, lower first.",
    },
}

ERRORS: dict[str, str] = {
    "key_missing": "No key, or two that differ. Send `Authorization: Bearer` or `x-api-key`.",
    "key_unknown": "The key is not in the config in force.",
    "route_forbidden": "Key or tenant may not use this route.",
    "route_unknown": "`model` names no route.",
    "state_unsupported": "The request refers to what a provider would have to keep (`previous_response_id`, `conversation`,"
    " `item_reference`, `background`): the gateway is stateless, and what one account stores is no other target's to read.",
    "body_invalid": "The body is not JSON, or a field is not what the dialect says; the message names it. 415 when it is compressed.",
    "body_too_large": "Larger than `gateway.max_body_bytes`.",
    "nothing_admitted": "No candidate may serve this request now; the message lists each with its reason.",
    "journal_unwritable": "Nothing can be recorded, so nothing is called. Disk full or relay standing still.",
    "overloaded": "`gateway.max_in_flight` requests are running, or no connection to an upstream came free.",
    "draining": "This worker is ending; try again, another one answers.",
    "policy_denied": "The upstream refused the content. Not tried elsewhere.",
    "request_incompatible": "The request does not fit there; its own 400, 404, 413 or 422 is passed on.",
    "upstream_auth": "The upstream does not accept our credential. The operator must act.",
    "upstream_rate_limited": "Too many requests there; `retry-after` says when, where it is known.",
    "upstream_quota_exhausted": "The quota there is used up; `retry-after` says when, where it is known.",
    "upstream_unavailable": "The upstream answered with a server error.",
    "upstream_unreachable": "No connection, or it broke.",
    "upstream_unknown": "The upstream failed in a way that no rule knows. Not tried elsewhere.",
    "deadline_exceeded": "The route's or an attempt's deadline passed.",
    "stream_truncated": "The stream broke off after content; failover is no longer possible.",
    "client_slow": "The client took no byte for `gateway.client_stall_s`.",
    "not_found": "No such endpoint.",
    "internal_error": "Our fault; the request id helps to find it.",
}
