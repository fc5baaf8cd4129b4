package folder

// nonblock is of no use here: opening a file does not wait.
const nonblock = 0
