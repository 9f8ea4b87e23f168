-- The views are the contract with whoever asks in SQL; docs/reference/sql.md names every column.
-- Times end in _ns (nanoseconds since the epoch, UTC) or _at (the same as TIMESTAMP); money ends in
-- _nanousd and is exact; NULL is unknown, never zero.

-- One row per settled attempt. A correction counts once per (attempt, correction): two reconcilers that
-- raced wrote the same number, and the one that is first in the attempt's partition holds.
CREATE VIEW v_ledger AS
WITH counted AS (
    SELECT c.*
    FROM r_corrections AS c
    JOIN (
        SELECT attempt, correction, min(log_offset) AS log_offset
        FROM r_corrections
        GROUP BY attempt, correction
    ) AS earliest USING (attempt, correction, log_offset)
),
corrected AS (
    SELECT
        attempt,
        count(*) AS corrections,
        sum(delta_nanousd) AS delta_nanousd,
        max_by({
            'input_uncached': input_uncached, 'cache_read': cache_read,
            'cache_write_5m': cache_write_5m, 'cache_write_1h': cache_write_1h,
            'output': output, 'reasoning': reasoning
        }, correction) AS tokens
    FROM counted
    GROUP BY attempt
)
SELECT
    s.attempt, s.request, s.tenant, s.session, s.route, s.target, s.pool,
    s.ts_ns AS settled_ns,
    make_timestamp(s.ts_ns // 1000) AS settled_at,
    CAST(make_timestamp(s.ts_ns // 1000) AS DATE) AS day,
    s.basis, s.outcome, s.model,
    s.cost_nanousd AS settled_nanousd,
    coalesce(c.corrections, 0) AS corrections,
    coalesce(c.delta_nanousd, 0) AS delta_nanousd,
    CASE
        WHEN s.cost_nanousd IS NULL AND c.attempt IS NULL THEN NULL
        ELSE coalesce(s.cost_nanousd, 0)::HUGEINT + coalesce(c.delta_nanousd, 0)
    END AS ledger_nanousd,
    CASE WHEN c.attempt IS NULL THEN s.input_uncached ELSE c.tokens.input_uncached END AS input_uncached,
    CASE WHEN c.attempt IS NULL THEN s.cache_read ELSE c.tokens.cache_read END AS cache_read,
    CASE WHEN c.attempt IS NULL THEN s.cache_write_5m ELSE c.tokens.cache_write_5m END AS cache_write_5m,
    CASE WHEN c.attempt IS NULL THEN s.cache_write_1h ELSE c.tokens.cache_write_1h END AS cache_write_1h,
    CASE WHEN c.attempt IS NULL THEN s.output ELSE c.tokens.output END AS output,
    CASE WHEN c.attempt IS NULL THEN s.reasoning ELSE c.tokens.reasoning END AS reasoning
FROM r_settlements AS s
LEFT JOIN corrected AS c ON c.attempt = s.attempt;

-- What each tenant spent per day (of the settlement), route and target.
CREATE VIEW v_spend AS
SELECT
    day, tenant, route, target, pool,
    count(*) AS attempts,
    count(*) FILTER (WHERE basis <> 'reported' AND corrections = 0) AS unreported,
    count(*) FILTER (WHERE ledger_nanousd IS NULL) AS unpriced,
    sum(input_uncached) AS input_uncached,
    sum(cache_read) AS cache_read,
    sum(cache_write_5m) AS cache_write_5m,
    sum(cache_write_1h) AS cache_write_1h,
    sum(output) AS output,
    sum(reasoning) AS reasoning,
    sum(settled_nanousd) AS settled_nanousd,
    sum(delta_nanousd) AS delta_nanousd,
    sum(ledger_nanousd) AS ledger_nanousd
FROM v_ledger
GROUP BY day, tenant, route, target, pool;

-- Attempts whose usage no provider has confirmed and no correction has cleared up.
CREATE VIEW v_unreported AS
SELECT attempt, request, tenant, route, target, pool, settled_ns, settled_at, basis, outcome, ledger_nanousd
FROM v_ledger
WHERE basis <> 'reported' AND corrections = 0;

-- Attempts that were started and have no settlement yet.
CREATE VIEW v_unsettled AS
SELECT
    a.attempt, a.request, a.tenant, a.session, a.route, a.target, a.pool, a.attempt_index,
    a.ts_ns AS started_ns,
    make_timestamp(a.ts_ns // 1000) AS started_at,
    a.source, a.input_tokens, a.reserve_output_tokens
FROM r_attempts AS a
ANTI JOIN r_settlements AS s ON s.attempt = a.attempt;

-- One row per upstream call, from its start to its ledger.
CREATE VIEW v_attempts AS
WITH first_tokens AS (
    SELECT attempt, min(ttft_ns) AS ttft_ns FROM r_first_tokens GROUP BY attempt
),
failures AS (
    SELECT
        attempt,
        count(*) AS failures,
        max_by({'cause': cause, 'phase': phase, 'rule': rule, 'status': status}, log_offset) AS last
    FROM r_failures
    GROUP BY attempt
)
SELECT
    a.attempt, a.request, a.tenant, a.session, a.route, a.target, a.pool, a.attempt_index, a.source,
    a.ts_ns AS started_ns,
    make_timestamp(a.ts_ns // 1000) AS started_at,
    l.settled_ns, l.settled_at,
    coalesce(l.outcome, 'open') AS outcome,
    l.basis, l.model,
    coalesce(f.ttft_ns, s.ttft_ns) AS ttft_ns,
    s.duration_ns,
    CASE WHEN s.attempt IS NULL THEN a.input_tokens ELSE s.input_estimate END AS input_estimate,
    l.input_uncached, l.cache_read, l.cache_write_5m, l.cache_write_1h, l.output, l.reasoning,
    l.settled_nanousd, l.corrections, l.ledger_nanousd,
    coalesce(x.failures, 0) AS failures,
    x.last.cause AS cause, x.last.phase AS phase, x.last.rule AS rule, x.last.status AS status
FROM r_attempts AS a
LEFT JOIN r_settlements AS s ON s.attempt = a.attempt
LEFT JOIN v_ledger AS l ON l.attempt = a.attempt
LEFT JOIN first_tokens AS f ON f.attempt = a.attempt
LEFT JOIN failures AS x ON x.attempt = a.attempt;

-- One row per request; refused ones too, also those refused before they were admitted. One whose end is not there
-- is open while its source lives; once that is closed, its end is lost: nobody else writes it.
CREATE VIEW v_requests AS
WITH living AS (
    SELECT DISTINCT log_partition, source
    FROM marks
    WHERE topic = 'tidegate.requests.v1' AND closed_ns IS NULL
),
money AS (
    SELECT
        request,
        count(*) AS settled_attempts,
        count(*) FILTER (WHERE ledger_nanousd IS NULL) AS unpriced,
        sum(ledger_nanousd) AS ledger_nanousd
    FROM v_ledger
    GROUP BY request
)
SELECT
    coalesce(a.request, r.request) AS request,
    coalesce(a.tenant, r.tenant) AS tenant,
    coalesce(a.session, r.session) AS session,
    coalesce(a.key_id, r.key_id) AS key_id,
    coalesce(a.route, r.route) AS route,
    a.dialect, a.endpoint, a.stream, a.session_source, a.body_bytes, a.input_tokens, a.max_output_tokens,
    coalesce(a.ts_ns, r.ts_ns) AS admitted_ns,
    make_timestamp(coalesce(a.ts_ns, r.ts_ns) // 1000) AS admitted_at,
    CASE
        WHEN r.request IS NOT NULL THEN 'refused'
        WHEN o.outcome IS NOT NULL THEN o.outcome
        WHEN l.source IS NOT NULL THEN 'open'
        ELSE 'lost'
    END AS outcome,
    coalesce(r.status, o.status) AS status,
    coalesce(r.code, o.code) AS code,
    r.detail,
    o.decision, o.target,
    coalesce(o.attempts, m.settled_attempts, 0) AS attempts,
    o.duration_ns, o.ttft_ns, o.overhead_ns,
    o.cost_nanousd,
    coalesce(m.unpriced, 0) AS unpriced,
    m.ledger_nanousd
FROM r_requests AS a
FULL JOIN r_refusals AS r ON r.request = a.request
LEFT JOIN r_outcomes AS o ON o.request = a.request
LEFT JOIN living AS l ON l.log_partition = a.log_partition AND l.source = a.source
LEFT JOIN money AS m ON m.request = coalesce(a.request, r.request);

-- One row per session of a tenant.
CREATE VIEW v_sessions AS
SELECT
    tenant, session,
    min(admitted_ns) AS first_ns,
    max(admitted_ns) AS last_ns,
    make_timestamp(min(admitted_ns) // 1000) AS first_at,
    make_timestamp(max(admitted_ns) // 1000) AS last_at,
    count(*) AS requests,
    count(*) FILTER (WHERE outcome = 'completed') AS completed,
    count(*) FILTER (WHERE outcome = 'refused') AS refused,
    count(*) FILTER (WHERE outcome IN ('failed', 'truncated')) AS failed,
    count(*) FILTER (WHERE outcome = 'cancelled') AS cancelled,
    count(*) FILTER (WHERE outcome = 'lost') AS lost,
    sum(attempts) AS attempts,
    count(*) FILTER (WHERE attempts > 1) AS failed_over,
    count(DISTINCT route) AS routes,
    count(DISTINCT target) AS targets,
    max_by(target, admitted_ns) FILTER (WHERE target IS NOT NULL) AS last_target,
    sum(unpriced) AS unpriced,
    sum(ledger_nanousd) AS ledger_nanousd
FROM v_requests
WHERE session IS NOT NULL
GROUP BY tenant, session;

-- One row per decision, with the price of its choice and of the next best.
CREATE VIEW v_decisions AS
WITH prices AS (
    SELECT
        decision,
        count(*) FILTER (WHERE rank IS NOT NULL) AS admitted,
        min(price_nanousd) FILTER (WHERE rank = 0) AS price_nanousd,
        min(price_nanousd) FILTER (WHERE rank = 1) AS next_price_nanousd
    FROM r_candidates
    GROUP BY decision
)
SELECT
    d.decision, d.request, d.tenant, d.session, d.key_id, d.route, d.dialect, d.stream,
    d.now_ns AS decided_ns,
    make_timestamp(d.now_ns // 1000) AS decided_at,
    d.strategy, d.chosen, d.candidates,
    coalesce(p.admitted, 0) AS admitted,
    p.price_nanousd, p.next_price_nanousd,
    d.input_tokens, d.max_output_tokens, d.vision, d.tools, d.reasoning,
    d.config, d.code, d.decide_version, d.seed, d.retry_at_ns, d.took_ns, d.source
FROM r_decisions AS d
LEFT JOIN prices AS p ON p.decision = d.decision;

-- One row per candidate of a decision: its verdict and price parts. Rank 0 was chosen.
CREATE VIEW v_candidates AS
SELECT
    decision, request, tenant, target, pool, rank,
    coalesce(rank = 0, FALSE) AS chosen,
    reason, detail, retry_at_ns, grade,
    price_nanousd, cash_nanousd, quota_nanousd, retry_nanousd, time_nanousd, switch_nanousd,
    expected_cached_tokens, expected_output_tokens, p_exhaust, in_flight, propensity,
    service_tier, ejected, target_version, pool_version, ts_ns
FROM r_candidates;

-- Planned → actual: what the decision expected of the target that served, and what it became.
CREATE VIEW v_drift AS
SELECT
    l.attempt, d.decision, l.request, l.tenant, l.route,
    l.settled_ns, l.settled_at,
    d.chosen AS planned_target,
    l.target AS actual_target,
    l.target <> d.chosen AS failed_over,
    l.basis, l.outcome,
    c.cash_nanousd AS expected_nanousd,
    l.ledger_nanousd,
    l.ledger_nanousd - c.cash_nanousd AS error_nanousd,
    d.input_tokens AS expected_input_tokens,
    l.input_uncached + coalesce(l.cache_read, 0)
        + coalesce(l.cache_write_5m, 0) + coalesce(l.cache_write_1h, 0) AS input_tokens,
    c.expected_cached_tokens,
    l.cache_read AS cached_tokens,
    c.expected_output_tokens,
    l.output AS output_tokens
FROM v_ledger AS l
JOIN r_decisions AS d ON d.request = l.request
JOIN r_candidates AS c ON c.decision = d.decision AND c.target = l.target
WHERE d.chosen IS NOT NULL;

-- Failed attempts, and whether the client ever saw it.
CREATE VIEW v_failures AS
SELECT
    f.attempt, f.request, f.tenant, f.target, f.pool,
    f.ts_ns AS failed_ns,
    make_timestamp(f.ts_ns // 1000) AS failed_at,
    f.cause, f.phase, f.rule, f.status, f.retry_after_ms, f.reset_at_ns, f.confidence,
    o.outcome AS request_outcome,
    o.outcome = 'completed' AS masked
FROM r_failures AS f
LEFT JOIN r_outcomes AS o ON o.request = f.request;

-- What is believed now of each quota window, beside the units settled in that period: the windows of the pool's
-- newest snapshot, so that one taken out of the config is gone. Two gateways may name different starts of a period that began with its first request: what overlaps the period counts.
-- Of a rolling window, which has no period, the units of the last `rolls_ns` count.
CREATE VIEW v_windows AS
WITH believed AS (
    SELECT w.*
    FROM r_windows AS w
    JOIN (
        SELECT subject_id AS pool, max(version) AS version
        FROM r_snapshots
        WHERE kind = 'pool'
        GROUP BY subject_id
    ) AS newest USING (pool, version)
),
settled AS (
    SELECT b.pool, b.window_id, sum(u.units) AS units
    FROM believed AS b
    JOIN r_uses AS u
        ON u.pool = b.pool AND u.window_id = b.window_id
        AND u.period_start_ns < coalesce(b.resets_at_ns, b.period_start_ns + 1, b.ts_ns)
        AND u.period_start_ns + greatest(u.duration_ns, 1) > coalesce(b.period_start_ns, b.ts_ns)
        AND (b.period_start_ns IS NOT NULL OR b.rolls_ns IS NOT NULL)
    GROUP BY b.pool, b.window_id
)
SELECT
    b.pool, b.window_id, b.version, b.status, b.quota_limit, b.used,
    s.units AS settled_units,
    b.period_start_ns, b.resets_at_ns, b.rolls_ns, b.told_at_ns, b.uvi, b.p_exhaust, b.will_exhaust, b.exhausts_at_ns, b.exhausts_sd_s,
    b.remaining_demand, b.use_p90, b.shadow_nanousd, b.amortised_nanousd,
    b.capacity, b.capacity_sd, b.outside, b.outside_sd, b.outside_demand,
    b.ts_ns AS believed_ns
FROM believed AS b
LEFT JOIN settled AS s ON s.pool = b.pool AND s.window_id = b.window_id;

-- Units settled per pool, window and period.
CREATE VIEW v_window_use AS
SELECT
    pool, window_id, period_start_ns,
    make_timestamp(period_start_ns // 1000) AS period_start_at,
    count(DISTINCT attempt) AS attempts,
    sum(units) AS units
FROM r_uses
GROUP BY pool, window_id, period_start_ns;

-- The newest snapshot of every subject.
CREATE VIEW v_snapshots AS
SELECT s.* EXCLUDE (log_partition, log_offset, event)
FROM r_snapshots AS s
JOIN (SELECT subject, max(version) AS version FROM r_snapshots GROUP BY subject) AS newest
    USING (subject, version);

-- What providers last said of their limits.
CREATE VIEW v_quota AS
SELECT q.target, q.pool, q.scope, q.quota_limit, q.remaining, q.resets_at_ns, q.ts_ns AS observed_ns
FROM r_quota AS q
JOIN (
    SELECT target, scope, max(log_offset) AS log_offset FROM r_quota GROUP BY target, scope
) AS newest USING (target, scope, log_offset);

-- Decisions that could have used a pool, by hour: what its shadow price is made of.
CREATE VIEW v_demand AS
SELECT
    pool, window_id,
    date_trunc('hour', make_timestamp(ts_ns // 1000)) AS hour,
    count(*) AS decisions,
    count(*) FILTER (WHERE chosen) AS chosen,
    sum(units) AS units,
    sum(units) FILTER (WHERE chosen) AS chosen_units,
    sum(alternative_nanousd) AS alternative_nanousd
FROM r_demand
GROUP BY pool, window_id, hour;

-- Corrections as they were written, each one once.
CREATE VIEW v_corrections AS
SELECT
    c.attempt, c.correction, c.target, c.pool, c.delta_nanousd, c.billed_nanousd, c.evidence,
    c.ts_ns AS corrected_ns,
    make_timestamp(c.ts_ns // 1000) AS corrected_at,
    c.source
FROM r_corrections AS c
JOIN (
    SELECT attempt, correction, min(log_offset) AS log_offset FROM r_corrections GROUP BY attempt, correction
) AS earliest USING (attempt, correction, log_offset);

-- Configs and kill-switches, with who did it.
CREATE VIEW v_control AS
SELECT ts_ns AS acted_ns, make_timestamp(ts_ns // 1000) AS acted_at, type, entity, actor, reason
FROM r_control;

-- How far the read model has come.
CREATE VIEW v_positions AS
SELECT topic, log_partition, next_offset FROM positions;

-- What was forecast of each quota window beside what happened: the last forecast of each thirtieth of a window, since
-- those in between are near copies. A window that is dry already is not forecast. `exhausted` is NULL while nobody
-- can know; `final_used` is what was used by the reset, and ends at the limit, as use does. A rolling window has no reset:
-- a forecast is of the `rolls_ns` after it, its periods are stretches of that length, and there is no `final_used`.
CREATE VIEW v_forecasts AS
WITH said AS (
    SELECT * REPLACE (
        CASE WHEN rolls_ns IS NULL THEN period_start_ns ELSE ts_ns // rolls_ns * rolls_ns END AS period_start_ns,
        CASE WHEN rolls_ns IS NULL THEN resets_at_ns ELSE ts_ns + rolls_ns END AS resets_at_ns
    )
    FROM r_windows
    WHERE p_exhaust IS NOT NULL AND used < quota_limit AND (ts_ns < resets_at_ns OR rolls_ns IS NOT NULL)
    QUALIFY row_number() OVER (
        PARTITION BY
            pool, window_id, ts_ns // greatest(coalesce(rolls_ns, resets_at_ns - period_start_ns) // 30, 1)
        ORDER BY version DESC
    ) = 1
),
numbered AS (
    -- Two gateways may name starts that differ a little; a new period is one that begins after the last one's end.
    SELECT *, sum(begins) OVER (PARTITION BY pool, window_id ORDER BY version) AS period
    FROM (
        SELECT
            *,
            CAST(coalesce(
                CASE
                    WHEN rolls_ns IS NULL THEN
                        period_start_ns >= lag(resets_at_ns) OVER (PARTITION BY pool, window_id ORDER BY version)
                    ELSE period_start_ns > lag(period_start_ns) OVER (PARTITION BY pool, window_id ORDER BY version)
                END,
                true
            ) AS INTEGER) AS begins
        FROM said
    )
),
dry AS (
    SELECT pool, window_id, ts_ns FROM r_windows WHERE used >= quota_limit
),
beside AS (
    SELECT
        n.*,
        CASE WHEN dry.ts_ns <= n.resets_at_ns THEN dry.ts_ns END AS exhausted_ns,
        (SELECT max(ts_ns) FROM r_snapshots) >= n.resets_at_ns AS is_over,
        least(greatest(late.used, n.used), n.quota_limit) AS used_by_then
    FROM numbered AS n
    ASOF LEFT JOIN dry
        ON n.pool = dry.pool AND n.window_id = dry.window_id AND n.ts_ns <= dry.ts_ns
    ASOF LEFT JOIN r_windows AS late
        ON n.pool = late.pool AND n.window_id = late.window_id AND n.resets_at_ns > late.ts_ns
)
SELECT
    pool, window_id, version,
    ts_ns AS believed_ns,
    make_timestamp(ts_ns // 1000) AS believed_at,
    CAST(period AS BIGINT) AS period,
    period_start_ns, resets_at_ns,
    make_timestamp(resets_at_ns // 1000) AS resets_at,
    used, quota_limit, p_exhaust,
    coalesce(will_exhaust, p_exhaust >= 0.5) AS will_exhaust,
    exhausts_at_ns, exhausts_p10_ns, exhausts_p50_ns, exhausts_p90_ns,
    make_timestamp(exhausts_p50_ns // 1000) AS exhausts_p50_at,
    remaining_p05, remaining_p10, remaining_p50, remaining_p90, remaining_p95,
    CASE WHEN exhausted_ns IS NOT NULL THEN true WHEN is_over THEN false END AS exhausted,
    exhausted_ns,
    make_timestamp(exhausted_ns // 1000) AS exhausted_at,
    CASE WHEN rolls_ns IS NULL AND (is_over OR exhausted_ns IS NOT NULL) THEN used_by_then END AS final_used
FROM beside;
