#!/bin/sh
# One step of CartPole with curl: mosaic policy-server random --env gym/CartPole-v1, then
#     MOSAIC_TOKEN=… sh examples/policy_server/episode.sh http://127.0.0.1:8643
# The token is in the file `token` of $MOSAIC_HOME. It is given to curl by a file, since others can see command lines.
set -eu
address=$1
config=$(mktemp)
trap 'rm -f "$config"' EXIT
printf 'header = "Authorization: Bearer %s"\n' "$MOSAIC_TOKEN" > "$config"

call() {
    curl --silent --show-error --fail-with-body --config "$config" --data "$2" "$address/policy/$1"
}

episode=$(call start_episode '{}' | sed 's/.*"episode_id":"\([^"]*\)".*/\1/')
call get_action "{\"episode_id\": \"$episode\", \"observation\": [0.01, 0.02, 0.03, 0.04]}"
echo
call log_returns "{\"episode_id\": \"$episode\", \"reward\": 1.0}"
echo
call end_episode "{\"episode_id\": \"$episode\", \"observation\": [0.02, 0.21, 0.03, -0.24]}"
echo
