# From Label Studio.
set -e

python - <<'END'
import json
import random

random.seed(0)
openings = {
    "good": ["I loved", "Go and see", "Wonderful:", "I watched"],
    "bad": ["I hated", "Do not watch", "Boring:", "I watched"],
}
endings = ["the one with the dog", "this film about a town", "the last part", "what they made of the book"]
people = {"ann@example.org": 0.05, "bob@example.org": 0.1, "cho@example.org": 0.45}  # how often they are wrong

tasks = []
for number in range(80):
    mood = random.choice(["good", "bad"])
    text = f"{random.choice(openings[mood])} {random.choice(endings)}, on day {100 + number}"
    task = {"id": number, "data": {"text": text}, "annotations": []}
    for email in random.sample(list(people), 2):
        wrong = random.random() < people[email]
        choice = {"good": "bad", "bad": "good"}[mood] if wrong else mood
        result = {"from_name": "mood", "to_name": "text", "type": "choices", "value": {"choices": [choice]}}
        seconds = random.lognormvariate(0.5 if wrong else 1.5, 0.4)
        task["annotations"].append({"completed_by": {"email": email}, "lead_time": seconds, "result": [result]})
    tasks.append(task)

with open("export.json", "w") as file:
    json.dump(tasks, file)
END

pidual fit export.json

pidual export runs/export tasks.json --to label-studio

pidual next runs/export --budget 10 --out ask.json
