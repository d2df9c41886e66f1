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
    memory_total_mib FLOAT,
    power_w FLOAT,
    power_limit_w FLOAT,
    temperature_c FLOAT,
    sm_clock_mhz FLOAT,
    memory_clock_mhz FLOAT,
    throttle BIGINT          -- bits as in clocks_event_reasons.active
);

CREATE TABLE sample_more (   -- what only some tools tell, beside the same samples
    trace BIGINT,
    sampled_at TIMESTAMP,
    gpu INTEGER,
    card VARCHAR,
    utilization_pct FLOAT,
    memory_free_mib FLOAT,
    memory_reserved_mib FLOAT,
    memory_temperature_c FLOAT,
    power_instant_w FLOAT,
    power_average_w FLOAT,
    power_enforced_limit_w FLOAT,
    power_max_limit_w FLOAT,
    power_default_limit_w FLOAT,
    graphics_clock_mhz FLOAT,
    graphics_clock_max_mhz FLOAT,
    sm_clock_max_mhz FLOAT,
    graphics_active_pct FLOAT,
    sm_active_pct FLOAT,
    sm_occupancy_pct FLOAT,
    tensor_active_pct FLOAT,
    dram_active_pct FLOAT,
    power_violation_pct FLOAT,
    thermal_violation FLOAT,
    pcie_rx_mb_s FLOAT,
    pcie_tx_mb_s FLOAT,
    fan_pct FLOAT
);
