"""Words as data: GPUs, models, engines and their options."""
