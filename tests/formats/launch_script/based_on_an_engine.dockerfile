FROM nvcr.io/nvidia/tensorrt-llm/release:1.2.0rc4
COPY gate.py /app/gate.py
EXPOSE 9009
ENTRYPOINT ["python3", "/app/gate.py"]
