# Your CSV to a report in five minutes.
set -e

python - <<'END'
import csv
import random

random.seed(0)
topics = {
    "billing": ["I was charged twice for", "Please refund", "The invoice is wrong for", "My card was declined for"],
    "login": ["I forgot the password of", "No reset code comes for", "I am locked out of", "Two-step login fails for"],
    "delivery": ["The courier lost", "Where is", "The box was empty of", "The wrong address is on"],
}
things = ["my order", "the blue lamp", "my account", "the yearly plan", "order 1207", "the gift", "my shop", "the app"]
people = {"ann": 0.1, "bob": 0.15, "cho": 0.55, "dee": 0.2}  # how often they are wrong

with open("labels.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["item", "text", "label", "annotator", "seconds"])
    for item in range(120):
        topic = random.choice(list(topics))
        text = f"{random.choice(topics[topic])} {random.choice(things)}, ticket {1200 + item}"
        for annotator in random.sample(list(people), 3):
            wrong = random.random() < people[annotator]
            label = random.choice([other for other in topics if other != topic]) if wrong else topic
            seconds = round(random.lognormvariate(0.5 if wrong else 1.5, 0.4), 1)
            table.writerow([item, text, label, annotator, seconds])
END

pidual fit labels.csv --x-text text --pi annotator,seconds

pidual detect runs/labels --budget 50 --out suspects.csv

pidual annotators runs/labels --names

pidual export runs/labels clean.csv --to csv
