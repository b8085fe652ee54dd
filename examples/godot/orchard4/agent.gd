# One agent of the orchard: what it observes, what it may do, what it has earned and when its episode ends.
#
# AIController2D is a class of the plug-in: it has policy_name, reward, done, needs_reset and reset(), and Sync reads them.
extends AIController2D

const GOAL := 8        # targets reached: the episode of this agent is won
const DECISIONS := 60  # after these the time is up

@export var speed := 1.0  # of the field's half width, per second
@export var color := Color.WHITE

@onready var orchard = get_parent()
var spot := Vector2()
var move := Vector2()
var reached := 0
var decisions := 0
var summary := {}  # numbers that become curves, per policy

func begin() -> void:
	reset()  # of the plug-in: needs_reset = false
	spot = orchard.place()
	move = Vector2()
	reached = 0
	decisions = 0

func walk(delta: float) -> void:
	spot += move.limit_length(1.0) * speed * delta
	spot = spot.clamp(-Vector2.ONE, Vector2.ONE)

func get_obs() -> Dictionary:
	var way: Vector2 = (orchard.target_of(self) - spot) / 2  # every number between -1 and 1
	var near := 1.0 if spot.distance_to(orchard.target_of(self)) < orchard.REACH else -1.0
	return {"obs": [spot.x, spot.y, way.x, way.y, near, 1.0 if policy_name == "dog" else -1.0]}

func get_action_space() -> Dictionary:
	return {"move": {"size": 2, "action_type": "continuous"}, "act": {"size": 2, "action_type": "discrete"}}

func set_action(action) -> void:
	move = Vector2(action["move"][0], action["move"][1])
	decisions += 1
	if action["act"] == 1:
		var earned: float = orchard.act(self)
		reward += earned
		reached += 1 if earned > 0 else 0
	summary = {"reached": reached}
	if reached == GOAL or decisions == DECISIONS:
		set("truncated", reached < GOAL)  # out of time; older versions of the plug-in do not have it
		done = true
		needs_reset = true

# Sync calls zero_reward() after it has read the reward.
func get_reward() -> float:
	return reward

func get_info() -> Dictionary:
	return summary
