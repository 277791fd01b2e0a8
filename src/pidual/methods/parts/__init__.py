"""What several methods share.

memory        SampleMemory: a value per training row
processes     gather, sum_over_processes, of_first_process, kept_mean
monte_carlo   Draws, mean_probability
networks      second_network, fresh_copy, reinitialise, classifier, update_average
pi_tower      PITower: logits from features and PI
selection     small_loss, clean_posterior, class_weights
mixing        mixup, sharpen, half, repeated
gradients     clip_gradients
"""
