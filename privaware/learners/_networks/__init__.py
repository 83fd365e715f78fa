"""Code shared by learners of neural networks: architecture, augmentation, training and checkpoints."""
