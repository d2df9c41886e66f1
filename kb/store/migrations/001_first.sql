-- No keys, indexes, enums, sequences or defaults: DuckLake accepts this file as it stands.
-- Texts named reading, experiment, workload, metrics, figures and value hold JSON.

CREATE TABLE source (
    identity VARCHAR,        -- keyed hash of path and head: the same file after it grew
    source VARCHAR,          -- BLAKE3 of its bytes
    path VARCHAR,            -- redacted
    folder VARCHAR,
    name VARCHAR,
    size BIGINT,             -- bytes on disk
    format VARCHAR,
    kind VARCHAR,
    parser_version INTEGER,
    status VARCHAR,          -- parsed | partial | unknown | refused | same | forgotten
    reason VARCHAR,
    part VARCHAR,            -- what assembly uses it for: anchor | metadata | measurement | trace | …
    same_as VARCHAR,         -- identity of the first source with these bytes
    read_at TIMESTAMP
);

CREATE TABLE reading (
    identity VARCHAR,
    source VARCHAR,
    reading VARCHAR
);

CREATE TABLE pending (
    folder VARCHAR           -- has sources that no run was assembled from yet
);

CREATE TABLE run (
    run VARCHAR,
    anchor VARCHAR,          -- identity of its server log, or of what stands for one
    ordinal INTEGER,         -- which start in the anchor, from 0
    site VARCHAR,            -- folder that it was assembled in
    engine VARCHAR,
    engine_version VARCHAR,
    model VARCHAR,
    model_id VARCHAR,
    family VARCHAR,
    quantization VARCHAR,
    gpu VARCHAR,
    arch VARCHAR,
    gpu_count INTEGER,
    stage VARCHAR,
    effect VARCHAR,
    blame VARCHAR,
    signature VARCHAR,
    started VARCHAR,         -- ISO 8601 as the source gives it, with or without a zone
    ended VARCHAR,
    experiment VARCHAR,
    digest VARCHAR           -- of the experiment
);

CREATE TABLE run_source (
    run VARCHAR,
    identity VARCHAR,
    path VARCHAR,
    how VARCHAR,
    confidence DOUBLE
);

CREATE TABLE measurement (
    run VARCHAR,
    ordinal INTEGER,
    client VARCHAR,
    input_len DOUBLE,        -- tokens per request
    output_len DOUBLE,
    concurrency DOUBLE,
    request_rate DOUBLE,     -- 1/s
    output_tok_s DOUBLE,
    total_tok_s DOUBLE,
    ttft_ms DOUBLE,          -- mean
    tpot_ms DOUBLE,          -- mean
    completed DOUBLE,
    failed DOUBLE,
    path VARCHAR,
    line INTEGER,
    workload VARCHAR,
    metrics VARCHAR
);

CREATE TABLE trace (
    run VARCHAR,
    gpu INTEGER,             -- index on its machine
    name VARCHAR,
    samples BIGINT,
    utilization_pct DOUBLE,  -- means
    power_w DOUBLE,
    sm_clock_mhz DOUBLE,
    memory_used_mib DOUBLE,  -- highest
    conditions VARCHAR,      -- names, separated by blanks
    figures VARCHAR
);

CREATE TABLE evidence_line (
    run VARCHAR,
    ordinal INTEGER,
    role VARCHAR,            -- cause | warning | measurement
    path VARCHAR,
    line INTEGER,
    text VARCHAR,
    meaning VARCHAR
);

CREATE TABLE probe (
    run VARCHAR,
    ordinal INTEGER,
    probe VARCHAR            -- prompts at temperature 0 and what came back
);

CREATE TABLE quality (
    run VARCHAR,             -- what comparing its probes with those of other backends says
    verdict VARCHAR,         -- agrees | broken | outlier | disagrees | alone
    detail VARCHAR,
    accused BOOLEAN          -- its backend is to blame
);

CREATE TABLE claim (
    claim VARCHAR,           -- hash of what is claimed and of the claim it follows
    kind VARCHAR,            -- invalidate | restore | forget | note | link | unlink | said
    target VARCHAR,          -- a run or the identity of a source
    value VARCHAR,
    reason VARCHAR,
    ordinal BIGINT,          -- order of claims about one target
    claimed_at TIMESTAMP
);
