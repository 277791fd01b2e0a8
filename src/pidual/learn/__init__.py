"""What is learned from answers: how they come about (`answers`), and a classifier without training (`closed_form`)."""
