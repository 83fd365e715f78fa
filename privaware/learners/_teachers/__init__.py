"""Code that PATE and Private-kNN share: neighbours, noisy votes, and the student that learns from the votes."""
