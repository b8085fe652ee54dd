#!/bin/sh
# A program in any language trains by printing @METRIC lines; this one only walks.
#   mosaic train gym/CartPole-v1 --worker script --set 'training.params.command=sh examples/scripts/walk.sh 50'
iterations=${1:-20}
iteration=0
reward=${MOSAIC_SEED:-0}
echo "walking $iterations iterations, files go to ${MOSAIC_CHECKPOINT_DIR:-nowhere}"
while [ "$iteration" -lt "$iterations" ]; do
    iteration=$((iteration + 1))
    reward=$((reward + 2))
    if [ "${MOSAIC_METRICS:-0}" = 1 ]; then
        echo "@METRIC {\"kind\": \"iteration\", \"training_iteration\": $iteration," \
            "\"timesteps_total\": $((iteration * 100)), \"episode_reward_mean\": $reward, \"shoe_size\": 42}"
    fi
    sleep "${WALK_PAUSE_S:-0}"
done
echo "arrived at $reward"
