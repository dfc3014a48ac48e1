// Package tuning holds the operator's settings of provider rdmacore. Unlike the provider it
// is in every build, so that every build can check a configuration.
package tuning

import (
	"fmt"
	"math"
	"time"
)

// Settings of the provider. On iWARP only Device, BusyPoll, KeepAlive and RegisterSinks have
// an effect: there TCP retransmits, and a Send without a Receive ends the connection.
type Settings struct {
	// Device is the name of the only device to use; "" means all devices.
	Device string `mapstructure:"device" doc:"name of the only device to use; without it rdmad uses all devices"`
	// RetryCount is how often a request is sent again when the peer does not acknowledge
	// it, 1 to 7.
	RetryCount int `mapstructure:"retry_count" default:"7" doc:"how often rdmad repeats a request that the peer does not acknowledge"`
	// RNRRetryCount is how often a Send is sent again when the peer has no Receive, 0 to
	// 7; 7 means forever.
	RNRRetryCount int `mapstructure:"rnr_retry_count" default:"7" doc:"how often rdmad repeats a Send for which the peer has no Receive; 7 means for ever"`
	// RNRTimer is how long a peer waits before it sends again when we had no Receive.
	RNRTimer time.Duration `mapstructure:"rnr_timer" default:"640us" doc:"how long a peer waits before it repeats a Send for which rdmad had no Receive"`
	// AckTimeout is how long to wait for an acknowledgement; 0 means the connection
	// manager's value.
	AckTimeout time.Duration `mapstructure:"ack_timeout" doc:"how long rdmad waits for an acknowledgement; with 0s the connection manager decides"`
	// BusyPoll is how long a connection polls for completions before it sleeps; 0 means
	// that it sleeps at once.
	BusyPoll time.Duration `mapstructure:"busy_poll" doc:"how long a connection polls for completions before it sleeps"`
	// KeepAlive is how long a connection may be silent before the peer is probed; 0 means
	// forever.
	KeepAlive time.Duration `mapstructure:"keep_alive" default:"1m" doc:"time without traffic after which rdmad asks the peer for a sign of life; 0s means never"`
	// RegisterSinks treats every device like iWARP adapters other than siw: the memory of
	// each RDMA Read is registered for that one call, with a right for the peer, even if
	// the device needs none. Use it to measure that cost.
	RegisterSinks bool `mapstructure:"register_sinks" doc:"register memory for each RDMA Read, even if the device does not need it"`
}

// Default returns the default settings.
func Default() Settings {
	return Settings{RetryCount: MaxRetryCount, RNRRetryCount: MaxRetryCount, RNRTimer: 640 * time.Microsecond, KeepAlive: time.Minute}
}

// Limits of Settings.
const (
	MaxRetryCount = 7
	MinRNRTimer   = 10 * time.Microsecond
	MaxRNRTimer   = 655360 * time.Microsecond
	MinAckTimeout = ackUnit * time.Nanosecond
	MaxAckTimeout = time.Minute
	// MaxBusyPoll bounds the processor time that one wait may use.
	MaxBusyPoll = 10 * time.Millisecond
	// Bounds of KeepAlive if it is not 0.
	MinKeepAlive = time.Second
	MaxKeepAlive = time.Hour
)

// Error means that a setting is out of its range.
type Error struct {
	Key string // as in the configuration
	Msg string
}

func (e *Error) Error() string { return e.Key + ": " + e.Msg }

// Check returns the first setting out of range as an *Error, or nil.
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

// rnrTimers are the times of the codes from 1 on, in units of 10 us. Code 0 is the longest
// time (InfiniBand specification, table 45).
var rnrTimers = [...]int{
	1: 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
	6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRTimerCode returns the code of the shortest time that is at least d.
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

// AckTimeoutCode returns the exponent of the shortest timeout, 4.096 us times a power of
// two, that is at least d. It never returns 0, which means no timeout.
func AckTimeoutCode(d time.Duration) uint8 {
	n := math.Ceil(math.Log2(float64(d) / ackUnit))
	return uint8(min(max(n, 1), 31))
}
