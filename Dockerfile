# trace-ves on a CPU, with every hosted model, glance, the page and addresses of YouTube.
#   docker build -t trace-ves .
#   docker run --rm -v "$PWD:/work" -e GEMINI_API_KEY trace-ves ask film.mp4 "Who opens the window?" -o "the woman" -o "the hunter"
#   docker run --rm -v "$PWD:/work" -p 127.0.0.1:8642:8642 trace-ves view runs --host 0.0.0.0
# Pin the base by digest if you build for others: --build-arg PYTHON_IMAGE=python@sha256:..., with the digest that
# `docker buildx imagetools inspect python:3.11-slim-bookworm` prints.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN python -m venv /opt/trace-ves \
    && /opt/trace-ves/bin/pip install --no-cache-dir --disable-pip-version-check --constraint constraints.txt \
        '.[video,gemini,openai,anthropic,glance,figures,web,parquet,youtube]'

FROM ${PYTHON_IMAGE}
COPY --from=build /opt/trace-ves /opt/trace-ves
COPY LICENSE NOTICE /usr/share/doc/trace-ves/
# Any user may run it (docker run --user), so that files written to /work belong to the caller.
RUN useradd --uid 1000 --create-home trace && install -d -m 1777 /cache
USER 1000
WORKDIR /work
ENV PATH=/opt/trace-ves/bin:$PATH \
    TRACE_VES_CACHE_DIR=/cache \
    MPLCONFIGDIR=/cache/matplotlib
VOLUME /cache
EXPOSE 8642
ENTRYPOINT ["trace-ves"]
CMD ["--help"]
