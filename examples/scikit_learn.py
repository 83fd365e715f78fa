"""The estimators where scikit-learn's are used. Bounds that are not declared are paid for from the budget."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from privaware import PrivateClassifier

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = PrivateClassifier(epsilon=2.0).fit(X_train, y_train)
print(f"accuracy {model.score(X_test, y_test):.3f} at epsilon {model.epsilon:g}")
