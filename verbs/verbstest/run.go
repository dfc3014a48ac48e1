package verbstest

import "testing"

// Run tests a provider. Each test gets new providers and leaves no object and no goroutine
// behind. Run omits tests of features that the devices lack (DeviceAttr) and tests in
// Target.Faults.
func Run(t *testing.T, target Target) {
	for _, c := range suite {
		if target.faulty(c.name) || c.needs != nil && !target.has(t, c.needs) {
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.run(newEnv(t, target)) })
	}
}

// has reports whether the devices of new providers have a feature.
func (target Target) has(t *testing.T, what func(*env) bool) bool {
	active, passive := target.New(t)
	defer CloseProvider(t, active)
	if passive != active {
		defer CloseProvider(t, passive)
	}
	return what(&env{T: t, target: target, attr: passive.Device().Attr()})
}

var suite = []struct {
	name  string
	run   func(*env)
	needs func(*env) bool // nil means no requirement
}{
	{"SendOrder", testSendOrder, nil},
	{"CompletionOrder", testCompletionOrder, nil},
	{"WriteThenSend", testWriteThenSend, nil},
	{"ReadAfterWrite", testReadAfterWrite, nil},
	{"Unsignaled", testUnsignaled, nil},
	{"UnsignaledSlots", testUnsignaledSlots, nil},
	{"UnsignaledOperations", testUnsignaledOperations, nil},
	{"UnsignaledFailure", testUnsignaledFailure, nil},
	{"SigAll", testSigAll, nil},
	{"BadSends", testBadSends, nil},
	{"BadReceives", testBadReceives, nil},
	{"QueueFull", testQueueFull, nil},
	{"PostCopies", testPostCopies, nil},
	{"BeforeConnection", testBeforeConnection, nil},
	{"Violations", testViolations, nil},
	{"RevokeUnderFire", testRevokeUnderFire, nil},
	{"ReceiverNotReady", testReceiverNotReady, nil},
	{"ReceiveTooSmall", testReceiveTooSmall, nil},
	{"ZeroLength", testZeroLength, nil},
	{"ScatterGather", testScatterGather, nil},
	{"FlushOnFail", testFlushOnFail, nil},
	{"FlushOnPeerClose", testFlushOnPeerClose, nil},
	{"PostInError", testPostInError, nil},
	{"CloseDropsCompletions", testCloseDropsCompletions, nil},
	{"Reads", testReads, nil},
	{"Fence", testFence, nil},
	{"ReadsBothWays", testReadsBothWays, nil},
	{"Window", testWindow, (*env).windows},
	{"BindKeys", testBindKeys, (*env).windows},
	{"BadBinds", testBadBinds, (*env).windows},
	{"Rebind", testRebind, (*env).windows},
	{"BindElsewhere", testBindElsewhere, (*env).windows},
	{"BadLocalInvalidate", testBadLocalInvalidate, (*env).windows},
	{"WindowKeepsRegion", testWindowKeepsRegion, (*env).windows},
	{"WindowOutlivesQP", testWindowOutlivesQP, (*env).windows},
	{"SendInvalidate", testSendInvalidate, (*env).invalidates},
	{"RevokedByPeer", testRevokedByPeer, (*env).invalidates},
	{"BadSendInvalidate", testBadSendInvalidate, (*env).invalidates},
	{"PrivateData", testPrivateData, nil},
	{"PrivateDataTooLong", testPrivateDataTooLong, nil},
	{"Reject", testReject, nil},
	{"Addresses", testAddresses, nil},
	{"ConnectTimeout", testConnectTimeout, nil},
	{"ConnectCancel", testConnectCancel, nil},
	{"RequestClosed", testRequestClosed, nil},
	{"Unreachable", testUnreachable, nil},
	{"ListenerClose", testListenerClose, nil},
	{"GetRequestContext", testGetRequestContext, nil},
	{"ConnectMisuse", testConnectMisuse, nil},
	{"Disconnect", testDisconnect, nil},
	{"DisconnectDrains", testDisconnectDrains, nil},
	{"OtherEnds", testOtherEnds, nil},
	{"CloseOrder", testCloseOrder, nil},
	{"BadObjects", testBadObjects, nil},
	{"Keys", testKeys, nil},
	{"CQWait", testCQWait, nil},
	{"CQNotify", testCQNotify, nil},
	{"CQClose", testCQClose, nil},
	{"CQBatch", testCQBatch, nil},
	{"SharedCQ", testSharedCQ, nil},
	{"ProgressWithoutWait", testProgressWithoutWait, nil},
	{"ProgressAfterWait", testProgressAfterWait, nil},
	{"EndWithoutWait", testEndWithoutWait, nil},
	{"WaitLooks", testWaitLooks, nil},
	{"WaitWakesForSends", testWaitWakesForSends, nil},
	{"WaitAtRandom", testWaitAtRandom, nil},
	{"CQOverflow", testCQOverflow, nil},
	{"ConcurrentPosts", testConcurrentPosts, nil},
	{"Transfers", testTransfers, nil},
	{"ManyConnections", testManyConnections, nil},
	{"Descriptors", testDescriptors, nil},
	{"RandomPrograms", testRandomPrograms, nil},
}
