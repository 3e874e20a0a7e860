#!/usr/bin/env bash
# Tests of what we use of each dependency, on the lowest versions that pyproject.toml allows, in .venv-lowest.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/environment.sh

mkdir -p .venv-lowest
"${PYTHON:-python3}" tools/lowest.py >.venv-lowest/constraints.txt
install .venv-lowest --constraint .venv-lowest/constraints.txt \
    --editable '.[video,gemini,openai,anthropic,glance,figures,web,build,parquet,logs]' \
    'httpx>=0.28.1,<1' 'hypothesis>=6.120' 'pytest>=8.3' 'pytest-socket>=0.7' 'pytest-xdist>=3.6' cryptography 'jsonschema>=4.20'
tests=(
    tests/core tests/records/test_round_trips.py tests/records/test_run_file.py # jiter, numpy, platformdirs, pydantic
    tests/cli/test_audit.py                                                     # click, rich
    tests/video/test_video.py                                                   # av, pillow, simplejpeg
    tests/video/fetching/test_fetch.py                                          # httpx
    tests/backbone/test_{providers,remote,replies}.py                           # the clients of services
    tests/ves/test_figures.py tests/ves/test_scoring.py                         # matplotlib
    tests/web/test_server.py                                                    # fastapi, jinja2, starlette, uvicorn
    tests/construction/test_store.py                                            # psycopg, sqlalchemy
    tests/benches/test_importers.py tests/benches/logs                          # openpyxl, pyarrow, zstandard
)
# The test client of the oldest Starlette uses an old name of today's anyio.
.venv-lowest/bin/python -m pytest -q -p no:cacheprovider -n 2 --dist loadfile \
    -W 'ignore:The anyio.abc.BlockingPortal alias:DeprecationWarning' "${tests[@]}" "$@"
