// A program for which the linker keeps every method.
package main

import (
	"os"
	"text/template"
)

func main() {
	template.Must(template.New("").Parse("{{.Name}}")).Execute(os.Stdout, os.Stdin)
}
