// Package sandbox starts programs behind walls: their own session, limits, the files they may
// see and no network, as far as the kernel has such walls. It re-executes the running binary as
// a runner, which puts the walls up around itself, starts the program and passes its streams
// on; the guard of package procguard holds both.
//
// The story in the order of reading: sandbox.go (a program and what carries it), class.go (the
// walls and limits of each isolation class), keys.go (what a call's keys change of them), pool.go
// (runners that stand ready), runner.go (the process behind the walls), frame.go (what the two say
// to each other), walls_linux.go (the walls: Landlock, seccomp, privileges, limits), apart.go and
// apart_linux.go (namespaces behind them, where the system has them), group.go and
// group_linux.go (cgroups, likewise), keeper_linux.go and processes_linux.go (what the runner
// does in its program's place), writes_linux.go (what the program would write and may not),
// reads_linux.go (what it would read, where somebody wants to know);
// seatbelt.go and walls_darwin.go (macOS); walls_windows.go, container_windows.go, job_windows.go
// and trial_windows.go (Windows), with the room relay (how a program there reaches its door).
//
// Promises: no program starts while a wall that was asked for is missing, and the error names
// it; a program and all that it started end with the call, with this process, or when they are
// killed; the program gets nothing of this process's environment but a few plain variables.
//
// It must never import anything of this module but the platform root and capabilities, and its own
// relay on Windows. Its imports begin in each runner: no net/http here.
package sandbox
