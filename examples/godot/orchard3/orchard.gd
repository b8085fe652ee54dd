# The orchard: a picker gathers fruit, and a dog drives off the crow that flies to it.
#
# The field is the square from -1 to 1. An agent earns 1 when it acts (`act` = 1) within REACH of its target, which then
# moves elsewhere; acting anywhere else costs WASTED. The target of the picker is the fruit, that of the dog the crow.
extends Node2D

const REACH = 0.25
const WASTED = 0.05
const CROW_SPEED = 0.2

var fruit = Vector2()
var crow = Vector2()
var random = RandomNumberGenerator.new()

func place():
	return Vector2(random.randf_range(-1, 1), random.randf_range(-1, 1))

# Begin the game of every agent; called by Sync when the trainer asks for a reset. The same seed gives the same game.
func restart(new_seed):
	if new_seed != null:
		random.seed = int(new_seed)
	fruit = place()
	crow = place()
	for agent in get_tree().get_nodes_in_group("AGENT"):
		agent.begin()
		agent.summary = {}

func target_of(agent):
	return fruit if agent.policy_name == "picker" else crow

func _physics_process(delta):
	crow = crow.move_toward(fruit, CROW_SPEED * delta)
	for agent in get_tree().get_nodes_in_group("AGENT"):
		agent.walk(delta)
	update()  # draws again, where there is a window

# An agent acts: return what it earns.
func act(agent):
	if agent.spot.distance_to(target_of(agent)) > REACH:
		return -WASTED
	if agent.policy_name == "picker":
		fruit = place()
	else:
		crow = place()
	return 1.0

func _draw():
	draw_set_transform(Vector2(240, 240), 0, Vector2(220, 220))
	draw_rect(Rect2(-1, -1, 2, 2), Color(0.75, 0.85, 0.6))
	draw_circle(fruit, 0.05, Color(0.8, 0.1, 0.1))
	draw_circle(crow, 0.05, Color(0.1, 0.1, 0.1))
	for agent in get_tree().get_nodes_in_group("AGENT"):
		draw_circle(agent.spot, 0.08, agent.color)
