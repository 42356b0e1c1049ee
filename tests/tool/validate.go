// Reads profiles as pprof, Parca and Pyroscope do, and holds them to their rules: `validate FILE.pb.gz…`.
//
// pprof's own CheckValid, and what Parca (pkg/normalizer, pkg/profile) and Pyroscope (pkg/validation, pkg/pprof) refuse,
// drop or rewrite beyond it.
// SPDX-License-Identifier: BSD-2-Clause
package main

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/google/pprof/profile"
)

const (
	mostSamples = 16000
	mostBytes   = 4 << 20
	mostDepth   = 1000
)

func check(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	p, err := profile.Parse(file)
	if err != nil {
		return err
	}
	if err := p.CheckValid(); err != nil {
		return err
	}
	for i, mapping := range p.Mapping {
		if mapping.ID != uint64(i+1) {
			return fmt.Errorf("mapping %d has number %d: Parca wants them without gaps", i+1, mapping.ID)
		}
	}
	for i, function := range p.Function {
		if function.ID != uint64(i+1) {
			return fmt.Errorf("function %d has number %d", i+1, function.ID)
		}
		if !utf8.ValidString(function.Name) || !utf8.ValidString(function.Filename) {
			return fmt.Errorf("function %q is not UTF-8", function.Name)
		}
	}
	for i, location := range p.Location {
		if location.ID != uint64(i+1) {
			return fmt.Errorf("location %d has number %d", i+1, location.ID)
		}
		if location.Mapping != nil && len(location.Line) == 0 && location.Address == 0 {
			return fmt.Errorf("location %d has neither lines nor an address", i+1)
		}
	}
	return checkSamples(p)
}

func checkSamples(p *profile.Profile) error {
	if p.PeriodType == nil || p.PeriodType.Type != "space" || p.PeriodType.Unit != "bytes" || p.Period <= 0 {
		return fmt.Errorf("period %v %d: Parca and Pyroscope name the series by it", p.PeriodType, p.Period)
	}
	if p.TimeNanos <= 0 {
		return fmt.Errorf("no time: Pyroscope takes only profiles of its window")
	}
	for _, kind := range p.SampleType {
		if strings.Contains(kind.Type, "-") {
			return fmt.Errorf("sample type %q: Parca refuses a dash", kind.Type)
		}
	}
	if len(p.Sample) > mostSamples {
		return fmt.Errorf("%d samples: Pyroscope takes %d", len(p.Sample), mostSamples)
	}
	sum := make([]int64, len(p.SampleType))
	for _, sample := range p.Sample {
		if len(sample.Location) > mostDepth {
			return fmt.Errorf("a stack of %d frames", len(sample.Location))
		}
		if len(sample.NumLabel) > 0 {
			return fmt.Errorf("numeric labels: Pyroscope deletes them")
		}
		for i, value := range sample.Value {
			if value < 0 {
				return fmt.Errorf("a value below zero: %d", value)
			}
			sum[i] += value
		}
	}
	for i, kind := range p.SampleType {
		fmt.Printf("%s %d\n", kind.Type, sum[i])
	}
	return nil
}

func main() {
	for _, path := range os.Args[1:] {
		if info, err := os.Stat(path); err == nil && info.Size() > mostBytes {
			fmt.Fprintf(os.Stderr, "%s: larger than Pyroscope takes\n", path)
			os.Exit(1)
		}
		if err := check(path); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			os.Exit(1)
		}
	}
}
