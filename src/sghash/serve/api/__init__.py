"""What can be asked over HTTP: requests, answers, and the verbs between them."""
