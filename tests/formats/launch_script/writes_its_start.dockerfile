FROM nvidia/cuda:12.8.0-devel-ubuntu24.04
ENV PYTHONUNBUFFERED=1
RUN apt-get update && apt-get install -y python3-pip
RUN pip install vllm==0.17.1
RUN echo '#!/bin/bash\n\
MODEL=${MODEL_NAME:-"Qwen/Qwen3-0.6B"}\n\
python3 -m vllm.entrypoints.openai.api_server \\\n\
    --model $MODEL \\\n\
    --port 8055 \\\n\
    --trust-remote-code\n\
' > /app/go.sh && chmod +x /app/go.sh
EXPOSE 8055
CMD ["/bin/bash", "/app/go.sh"]
