# For the scripts beside it. `install FOLDER ARGUMENT…` makes a virtual environment and installs into it with pip, unless
# the same was installed there before. With SETUP_ONLY=1 the script that called it ends then.
install() {
    local folder=$1 wanted
    wanted="${*:2} $(cat pyproject.toml constraints*.txt tests/integrations/requirements.txt tests/backbone/hf/requirements.txt | sha256sum)"
    if [ "$wanted" != "$(cat "$folder/installed" 2>/dev/null)" ]; then
        [ -x "$folder/bin/python" ] || "${PYTHON:-python3}" -m venv "$folder"
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}"
        echo "$wanted" >"$folder/installed"
    fi
    [ -z "${SETUP_ONLY:-}" ] || exit 0
}
