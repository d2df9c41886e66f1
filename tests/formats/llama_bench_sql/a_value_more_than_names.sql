CREATE TABLE IF NOT EXISTS test (
  build_commit TEXT,
  build_number INTEGER,
  avg_ts REAL,
  stddev_ts REAL
);

INSERT INTO test (build_commit, build_number, cuda, metal, gpu_blas, blas, cpu_info, gpu_info, model_filename, model_type, model_size, model_n_params, n_batch, n_threads, f16_kv, n_gpu_layers, main_gpu, mul_mat_q, tensor_split, n_prompt, n_gen, test_time, avg_ns, stddev_ns, avg_ts, stddev_ts) VALUES ('0a1b2c3', '1300', '1', '0', '0', '1', '1', 'Example CPU 8-Core', 'NVIDIA GeForce RTX 3090', 'models/dense-7b-q4_0.gguf', 'llama 7B mostly Q4_0', '3825065984', '6738415616', '512', '8', '1', '99', '0', '1', '0.00', '512', '0', '2023-10-01T10:00:00Z', '250000000', '500000', '2048.000000', '4.096000');
INSERT INTO test (build_commit, build_number, cuda, metal, gpu_blas, blas, cpu_info, gpu_info, model_filename, model_type, model_size, model_n_params, n_batch, n_threads, f16_kv, n_gpu_layers, main_gpu, mul_mat_q, tensor_split, n_prompt, n_gen, test_time, avg_ns, stddev_ns, avg_ts, stddev_ts) VALUES ('0a1b2c3', '1300', '1', '0', '0', '1', '1', 'Example CPU 8-Core', 'NVIDIA GeForce RTX 3090', 'models/dense-7b-q4_0.gguf', 'llama 7B mostly Q4_0', '3825065984', '6738415616', '512', '8', '1', '99', '0', '1', '0.00', '0', '128', '2023-10-01T10:00:05Z', '1280000000', '1000000', '100.000000', '0.250000');
