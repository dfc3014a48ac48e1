package siege

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Report is the result of `make siege`: the outcomes of several attacks.
type Report struct {
	Started time.Time `json:"started"`
	CPUs    int       `json:"cpus"`
	// Seconds is the time of each phase.
	Seconds float64 `json:"seconds"`
	// Group says that the attackers had a control group (IdleGroup), not only SCHED_IDLE.
	Group    bool      `json:"attackers_in_idle_group"`
	Outcomes []Outcome `json:"attacks"`
}

// Outcome is the result of one attack.
type Outcome struct {
	Name   string `json:"name"`
	Does   string `json:"does"`
	Before Phase  `json:"before"`
	During Phase  `json:"during"`
	After  Phase  `json:"after"`
	Tally  Tally  `json:"attacker"`
	// Failures lists the goals that rdmad missed.
	Failures []string `json:"failures"`
}

// Phase has the innocent clients' latencies and rdmad's resources in one phase.
type Phase struct {
	Seconds float64              `json:"seconds"`
	Clients map[string]Latencies `json:"clients"`
	// RSS is the peak of the resident size, in bytes.
	RSS         int64 `json:"rss_bytes"`
	Descriptors int   `json:"descriptors"` // the most
	Goroutines  int64 `json:"goroutines"`  // at the last scrape
	LogBytes    int64 `json:"log_bytes"`
	// Unfinished says what did not happen in time, or "".
	Unfinished string `json:"unfinished,omitempty"`
}

// Write writes the report to a file.
func (r *Report) Write(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// Read reads a report.
func Read(path string) (*Report, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}
