#!/usr/bin/env bash
# lmms-eval runs a task of ours and its log is audited, in the environment .venv-lmms-eval of 2.5 GB. lmms-eval 0.7.3
# needs PyAV below 16, so trace-ves is installed without the extra `video`. torch is the CPU build of the other tests.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/environment.sh

install .venv-lmms-eval 'lmms-eval==0.7.3' . 'torch==2.13.0' hypothesis pytest pytest-socket
# torchvision's wheels do not load beside a build of torch for the CPU, and the model `dummy` does not need them.
.venv-lmms-eval/bin/python -m pip uninstall --quiet --yes torchvision
.venv-lmms-eval/bin/python -m pytest tests/integrations/test_lmms_eval.py
