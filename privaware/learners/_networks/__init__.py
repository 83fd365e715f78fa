"""What learners of neural networks share: architecture, augmentation, training with and without noise, checkpoints."""
