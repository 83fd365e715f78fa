"""Code that PATE and Private-kNN share: noisy votes, and the student that learns from the votes."""
