// Empty: lets the functions that main.go links by name have no body.
