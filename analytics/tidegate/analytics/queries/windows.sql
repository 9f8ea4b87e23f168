-- title: Quota windows as believed now
-- brief: pool, window_id=window, status, uvi=UVI, used, quota_limit=limit, p_exhaust=P(dry), will_exhaust=dry?, resets_at=resets, told_at=told
SELECT
    pool, window_id, status, quota_limit, used, settled_units, uvi, p_exhaust, will_exhaust,
    make_timestamp(told_at_ns // 1000) AS told_at,
    make_timestamp(resets_at_ns // 1000) AS resets_at,
    make_timestamp(exhausts_at_ns // 1000) AS exhausts_at,
    rolls_ns, shadow_nanousd, amortised_nanousd, capacity, capacity_sd, outside, outside_sd
FROM v_windows
ORDER BY p_exhaust DESC NULLS LAST, pool, window_id
