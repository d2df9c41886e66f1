#!/bin/bash
config_file=$1
export TRTLLM_MNNVL_AR_ENABLED=1
trtllm-serve disaggregated_mpi_worker -c ${config_file}
