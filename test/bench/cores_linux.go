package main

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// spread holds the first group's processes to one core and the second's to another,
// until together is called: some kernels keep processes that wait for one another on
// one core and leave the second idle. It returns false, and changes nothing, where
// there is only one core.
func spread(first, second []*child) (together func() error, ok bool, err error) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return nil, false, fmt.Errorf("cores: %w", err)
	}
	var cores []unix.CPUSet
	for i := 0; len(cores) < 2 && i < 1024; i++ {
		if all.IsSet(i) {
			var one unix.CPUSet
			one.Set(i)
			cores = append(cores, one)
		}
	}
	if len(cores) < 2 {
		return nil, false, nil
	}
	hold := func(set [2]unix.CPUSet) error {
		for i, group := range [][]*child{first, second} {
			for _, c := range group {
				if err := bind(c.pid(), &set[i]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := hold([2]unix.CPUSet{cores[0], cores[1]}); err != nil {
		return nil, false, err
	}
	return func() error { return hold([2]unix.CPUSet{all, all}) }, true, nil
}

// bind sets the cores of every thread of a process; those that it makes later
// have their maker's.
func bind(pid int, set *unix.CPUSet) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return fmt.Errorf("cores: %w", err)
	}
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(tid, set); err != nil && err != unix.ESRCH {
			return fmt.Errorf("cores: %w", err)
		}
	}
	return nil
}
