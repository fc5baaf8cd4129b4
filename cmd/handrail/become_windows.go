package main

import "errors"

// follows says that a node may have another program take its place here: a program that runs keeps
// its file.
const follows = false

func become(string) error { return errors.ErrUnsupported }
