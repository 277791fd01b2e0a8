"""What several methods share.

memory        a value per training row
processes     values of all processes that train together
monte_carlo   draws, and means over them; logits from features and PI
networks      a second network, layers with new weights, a moving average
selection     which rows count, from which epoch on, and how they are mixed
"""
