// Package tuning has what operators may set of provider rdmacore. Unlike the
// provider it is in every build, so that every build can check a configuration.
package tuning

import (
	"fmt"
	"math"
	"time"
)

// Settings of the provider. What is of no use on iWARP, where TCP sends again and
// a Send without a Receive ends the connection, is ignored there: everything but
// Device, BusyPoll, KeepAlive and RegisterSinks.
type Settings struct {
	// Device is the name of the only device to use; "" is all.
	Device string `mapstructure:"device" doc:"only device to use; without it all are used"`
	// RetryCount is how often a request is sent again when the peer does not
	// acknowledge it, 1 to 7.
	RetryCount int `mapstructure:"retry_count" default:"7" doc:"how often a request is sent again that the peer does not acknowledge"`
	// RNRRetryCount is the same for when the peer has no Receive, 0 to 7, where
	// 7 is for ever.
	RNRRetryCount int `mapstructure:"rnr_retry_count" default:"7" doc:"how often a Send is sent again for which the peer has no Receive; 7 is for ever"`
	// RNRTimer is after what time a peer may try again when we had no Receive.
	RNRTimer time.Duration `mapstructure:"rnr_timer" default:"640us" doc:"when a peer may send again for which there was no Receive"`
	// AckTimeout is how long to wait for an acknowledgement; 0 leaves it to the
	// connection manager.
	AckTimeout time.Duration `mapstructure:"ack_timeout" doc:"how long to wait for an acknowledgement; 0s leaves it to the connection manager"`
	// BusyPoll is how long a connection looks for completions before it sleeps;
	// 0 sleeps at once.
	BusyPoll time.Duration `mapstructure:"busy_poll" doc:"how long a connection polls for completions before it sleeps"`
	// KeepAlive is for how long nothing may happen on a connection before the
	// peer is asked for a sign of life; 0 is for ever.
	KeepAlive time.Duration `mapstructure:"keep_alive" default:"1m" doc:"silence after which the peer is asked for a sign of life; 0s is never"`
	// RegisterSinks has every device treated as iWARP adapters other than siw are: what
	// an RDMA Read is placed in is registered for that one call, with a right for
	// the peer, though the device does without. It tells what that costs.
	RegisterSinks bool `mapstructure:"register_sinks" doc:"register the memory of each RDMA Read, even where the device needs none"`
}

// Default are the settings in force without any.
func Default() Settings {
	return Settings{RetryCount: MaxRetryCount, RNRRetryCount: MaxRetryCount, RNRTimer: 640 * time.Microsecond, KeepAlive: time.Minute}
}

// Bounds of Settings.
const (
	MaxRetryCount = 7
	MinRNRTimer   = 10 * time.Microsecond
	MaxRNRTimer   = 655360 * time.Microsecond
	MinAckTimeout = ackUnit * time.Nanosecond
	MaxAckTimeout = time.Minute
	// MaxBusyPoll bounds what a wait may cost a processor.
	MaxBusyPoll = 10 * time.Millisecond
	// Bounds of KeepAlive unless it is 0.
	MinKeepAlive = time.Second
	MaxKeepAlive = time.Hour
)

// Error is a setting out of its range.
type Error struct {
	Key string // as the configuration has it
	Msg string
}

func (e *Error) Error() string { return e.Key + ": " + e.Msg }

// Check gives the first mistake, an *Error.
func (s *Settings) Check() error {
	switch {
	case s.RetryCount < 1 || s.RetryCount > MaxRetryCount:
		return &Error{"retry_count", fmt.Sprintf("%d is out of range 1..%d", s.RetryCount, MaxRetryCount)}
	case s.RNRRetryCount < 0 || s.RNRRetryCount > MaxRetryCount:
		return &Error{"rnr_retry_count", fmt.Sprintf("%d is out of range 0..%d", s.RNRRetryCount, MaxRetryCount)}
	case s.RNRTimer < MinRNRTimer || s.RNRTimer > MaxRNRTimer:
		return &Error{"rnr_timer", fmt.Sprintf("%v is out of range %v..%v", s.RNRTimer, MinRNRTimer, MaxRNRTimer)}
	case s.AckTimeout != 0 && (s.AckTimeout < MinAckTimeout || s.AckTimeout > MaxAckTimeout):
		return &Error{"ack_timeout", fmt.Sprintf("%v is out of range %v..%v", s.AckTimeout, MinAckTimeout, MaxAckTimeout)}
	case s.BusyPoll < 0 || s.BusyPoll > MaxBusyPoll:
		return &Error{"busy_poll", fmt.Sprintf("%v is out of range 0s..%v", s.BusyPoll, MaxBusyPoll)}
	case s.KeepAlive != 0 && (s.KeepAlive < MinKeepAlive || s.KeepAlive > MaxKeepAlive):
		return &Error{"keep_alive", fmt.Sprintf("%v is out of range %v..%v, or 0s", s.KeepAlive, MinKeepAlive, MaxKeepAlive)}
	}
	return nil
}

// rnrTimers are the times of the codes from 1 on, in units of 10 us; code 0 is
// longer than all others (InfiniBand specification, table 45).
var rnrTimers = [...]int{
	1: 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
	6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRTimerCode is the code of the shortest time that is no shorter than d.
func RNRTimerCode(d time.Duration) uint8 {
	for code := 1; code < len(rnrTimers); code++ {
		if time.Duration(rnrTimers[code])*10*time.Microsecond >= d {
			return uint8(code)
		}
	}
	return 0
}

// ackUnit is the shortest acknowledgement timeout, in ns (InfiniBand
// specification 9.7.6.1.3).
const ackUnit = 4096

// AckTimeoutCode is the exponent of the shortest timeout, 4.096 us times a power
// of two, that is no shorter than d. 0 would be for ever and is never given.
func AckTimeoutCode(d time.Duration) uint8 {
	n := math.Ceil(math.Log2(float64(d) / ackUnit))
	return uint8(min(max(n, 1), 31))
}
