-- Samples of GPU traces as numbers: one row per sample of one GPU.

ALTER TABLE source ADD COLUMN trace BIGINT;   -- what its samples are found by; NULL where it has none

CREATE TABLE sample (
    trace BIGINT,            -- of its source
    sampled_at TIMESTAMP,    -- as the trace prints it, UTC where it tells a zone; 1970 + elapsed where it only counts
    gpu INTEGER,             -- index on its machine
    card VARCHAR,            -- UUID or bus, where the trace tells no index
    utilization_pct FLOAT,
    memory_utilization_pct FLOAT,
    memory_used_mib FLOAT,
    power_w FLOAT,
    power_limit_w FLOAT,
    temperature_c FLOAT,
    memory_temperature_c FLOAT,
    sm_clock_mhz FLOAT,
    memory_clock_mhz FLOAT,
    sm_active_pct FLOAT,
    tensor_active_pct FLOAT,
    dram_active_pct FLOAT,
    throttle BIGINT          -- bits as in clocks_event_reasons.active
);
