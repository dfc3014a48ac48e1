package conditions

// Kind is a kind of thing that has a condition.
type Kind string

// The kinds.
const (
	Listener    Kind = "listener"    // by its name
	Service     Kind = "service"     // by its name
	Export      Kind = "export"      // directory of a service nfs, by the service's name
	Upstream    Kind = "upstream"    // server of a service forward, by the service's name
	Connector   Kind = "connector"   // by its name
	Target      Kind = "target"      // server of a connector, by the connector's name
	Device      Kind = "device"      // RDMA device, as the kernel names it
	Certificate Kind = "certificate" // by the key of the configuration that names it
	State       Kind = "state"       // the state directory
	Audit       Kind = "audit"       // the audit log
	Memory      Kind = "memory"      // of the process
	Descriptors Kind = "descriptors" // of the process: files and connections that it may have open
	Limits      Kind = "limits"      // that operators set
	Reload      Kind = "reload"      // of the configuration file
	RPCBind     Kind = "rpcbind"     // registration with the machine's rpcbind
	Fleet       Kind = "fleet"       // membership in the fleet, by the node's name; and the controller
	Rollout     Kind = "rollout"     // of a policy of the fleet, by its id; on the controller
)

// The names of the conditions of kind Fleet beside the node's. No node may have them.
const (
	FleetController = "controller"
	FleetKeys       = "keys" // those that are left out
)

// Reason is the reason for a condition's status: a row of the catalogue.
type Reason struct {
	Kind    Kind
	Name    string // one word in CamelCase, as in Kubernetes' conditions
	Status  Status
	Meaning string
	Remedy  string // NAME stands for the thing's name; empty when there is nothing to do
}

// Reasons are all reasons of the catalogue.
var Reasons []*Reason

func reason(k Kind, name string, s Status, meaning, remedy string) *Reason {
	r := &Reason{k, name, s, meaning, remedy}
	Reasons = append(Reasons, r)
	return r
}

// The catalogue, by kind and from good to bad. docs/conditions.md shows it as a table.
var (
	ListenerUp          = reason(Listener, "Accepting", OK, "The listener accepts connections.", "")
	ListenerUnreachable = reason(Listener, "Unreachable", Degraded, "The device, port or address of the listener is gone. It accepts again by itself when they are back.", "bring the device, port or address back (rdma link, ip address), or remove it: rdmactl listeners remove NAME")
	ListenerDraining    = reason(Listener, "Draining", Degraded, "The listener is being removed, or rdmad ends. It accepts no new connections.", "wait until its connections have ended: rdmactl connections list --listener NAME")
	ListenerFailed      = reason(Listener, "NotRestored", Failed, "The listener was added or changed at runtime and could not be brought back at the start.", "in the configuration file: give it the file's values, rdmactl listeners unset NAME; added at runtime: remove the cause and add it again, or forget it, rdmactl listeners remove NAME")

	ServiceUp       = reason(Service, "Serving", OK, "The service answers calls.", "")
	ServiceDraining = reason(Service, "Draining", Degraded, "The service is being removed, or rdmad ends.", "wait until its calls have ended")
	ServiceFailed   = reason(Service, "NotRestored", Failed, "The service was added or changed at runtime and could not be brought back at the start.", "in the configuration file: give it the file's values, rdmactl services unset NAME; added at runtime: remove the cause and add it again, or forget it, rdmactl services remove NAME")

	ExportServed     = reason(Export, "Served", OK, "The directory is there and is the one that is served.", "")
	ExportUnchecked  = reason(Export, "NotChecked", Unknown, "The directory is not checked yet.", "wait some seconds")
	ExportMissing    = reason(Export, "Missing", Failed, "The directory is not there any more. If its file system is no longer mounted, handles of clients are stale, or clients wait with require_mountpoint.", "mount its file system or put the directory back; if it is a new one, restart rdmad")
	ExportNotMounted = reason(Export, "NotMounted", Failed, "No file system is mounted at the path, and require_mountpoint is on. Clients wait.", "mount the file system; rdmad then serves it by itself")
	ExportReplaced   = reason(Export, "Replaced", Failed, "Another directory or file system is at the path. Clients still use the one from before; if that is no longer mounted, their handles are stale.", "put the file system back that rdmad serves, or restart rdmad to serve the new one")
	ExportReadOnly   = reason(Export, "ReadOnly", Failed, "The directory can't be written to, and the service is not read_only.", "let rdmad's user write there, if the message says permission denied; else see the kernel's log for errors of the disk, and remount the file system read-write; or set read_only: true")
	ExportUnusable   = reason(Export, "Unusable", Failed, "The file system answers with an error.", "see the kernel's log for errors of the disk or of the file server")
	ExportNoAnswer   = reason(Export, "NoAnswer", Failed, "The file system does not answer in time.", "check whether its disk or file server hangs")
	UpstreamAnswers  = reason(Upstream, "Answers", OK, "The server answers NULL calls.", "")
	UpstreamUnprobed = reason(Upstream, "NotProbed", Unknown, "rdmad has not probed the server yet, or has no file descriptor to.", "wait some seconds; if the message says too many open files, raise LimitNOFILE of the service (systemctl edit rdmad), or ulimit -n, and restart rdmad")
	UpstreamGone     = reason(Upstream, "Unreachable", Failed, "rdmad can't connect to the server.", "start the server, or correct the address of service NAME")
	UpstreamSilent   = reason(Upstream, "NoAnswer", Failed, "The server takes connections, but does not answer an RPC call in time.", "check whether the server hangs, and whether it is an ONC RPC server")

	ConnectorUp     = reason(Connector, "Accepting", OK, "The connector accepts TCP clients.", "")
	ConnectorGoing  = reason(Connector, "Draining", Degraded, "The connector is being removed, or rdmad ends. It accepts no new clients.", "wait until its clients have ended")
	ConnectorFailed = reason(Connector, "NotRestored", Failed, "The connector was added or changed at runtime and could not be brought back at the start.", "in the configuration file: give it the file's values, rdmactl connectors unset NAME; added at runtime: remove the cause and add it again, or forget it, rdmactl connectors remove NAME")
	TargetAnswers   = reason(Target, "Answers", OK, "The target answers NULL calls over RPC-over-RDMA.", "")
	TargetUnprobed  = reason(Target, "NotProbed", Unknown, "rdmad has not probed the target yet, or has no memory or file descriptor to.", "wait some seconds; if the message names a limit of memory, raise limits.memory; if it says too many open files, raise LimitNOFILE of the service (systemctl edit rdmad), or ulimit -n, and restart rdmad")
	TargetGone      = reason(Target, "Unreachable", Failed, "No RPC-over-RDMA connection to the target can be made.", "start the server or correct the connector's target; rdmactl doctor TARGET finds out why")
	TargetSilent    = reason(Target, "NoAnswer", Failed, "The target takes connections, but does not answer an RPC call in time.", "check whether the server hangs; rdmactl doctor TARGET finds out why")

	DeviceActive  = reason(Device, "Active", OK, "A port of the device is active.", "")
	DeviceDown    = reason(Device, "NoActivePort", Degraded, "No port of the device is active.", "connect the cable and bring the link up: ip link set dev INTERFACE up; rdma link shows it")
	DeviceProblem = reason(Device, "Unusable", Degraded, "rdmad can't use the device, or has no right to.", "see the message; group rdma or udev's rules give the right")
	DeviceMissing = reason(Device, "Missing", Failed, "The device was there and is gone.", "look in the kernel's log and load the device's driver again; rdma dev lists the devices; if it was removed for good, restart rdmad")

	CertificateValid       = reason(Certificate, "Valid", OK, "The certificate is valid for more than 14 days.", "")
	CertificateExpiring    = reason(Certificate, "Expiring", Degraded, "The certificate expires within 14 days.", "put a renewed certificate in its place; rdmad reads it without a restart")
	CertificatePartlyValid = reason(Certificate, "PartlyValid", Degraded, "A file of several CA certificates holds one that is not valid now. The others are in use.", "put a renewed CA certificate in its place, or remove it from the file; rdmad reads it without a restart")
	CertificateUnreadable  = reason(Certificate, "Unreadable", Degraded, "The file can't be read, or holds no certificate. The certificate that rdmad read earlier stays in use until a restart.", "restore the file and let rdmad read it")
	CertificateExpired     = reason(Certificate, "Expired", Failed, "The certificate has expired: connections that need it fail.", "put a renewed certificate in its place; rdmad reads it without a restart")
	CertificateNotYetValid = reason(Certificate, "NotYetValid", Failed, "The certificate is not valid yet.", "set this machine's clock, or put a valid certificate in its place")

	StateWritable  = reason(State, "Writable", OK, "Changes can be kept.", "")
	StateUnchecked = reason(State, "NotChecked", Unknown, "The directory is not checked yet.", "wait some seconds")
	StateLowSpace  = reason(State, "LowSpace", Degraded, "Less than 64 MiB are free.", "free space on its file system")
	StateFull      = reason(State, "NoSpace", Failed, "Its file system, or a quota, is full: no change can be made.", "free space on its file system")
	StateReadOnly  = reason(State, "ReadOnly", Failed, "Its file system is read-only: no change can be made.", "see the kernel's log for errors of the disk, and remount the file system read-write")
	StateUnusable  = reason(State, "Unwritable", Failed, "rdmad can't write there: no change can be made.", "restore the directory, writable for rdmad's user; then restart rdmad")
	StateReplaced  = reason(State, "Replaced", Failed, "Another directory is at the path: changes made now are lost at the next start.", "restore the directory, or restart rdmad to use the new one")
	StateInDoubt   = reason(State, "InDoubt", Failed, "A change may or may not be on the disk: no change of settings can be made.", "restart rdmad")
	StateNoAnswer  = reason(State, "NoAnswer", Failed, "Its file system does not answer in time.", "check whether its disk or file server hangs")

	AuditWritable   = reason(Audit, "Writable", OK, "Changes are recorded.", "")
	AuditUnwritable = reason(Audit, "Unwritable", Failed, "The last entry could not be written: changes are refused until one can be.", "free space, or repair the state directory; rdmad then tries again by itself; restart it if the message says that it can't be undone")

	MemoryFree      = reason(Memory, "Free", OK, "rdmad uses less than 95 % of the memory that it may have.", "")
	MemoryNearLimit = reason(Memory, "NearLimit", Degraded, "rdmad uses 95 % or more of limits.memory, or of what the control group allows: calls wait for memory, and connections are refused.", "raise limits.memory, or at once: rdmactl limits set --max-memory SIZE; if the message names the control group, raise its limit first; rdmactl clients shows who uses rdmad most")

	DescriptorsFree      = reason(Descriptors, "Free", OK, "Less than 90 % of the files and connections that rdmad may have open are open.", "")
	DescriptorsNearLimit = reason(Descriptors, "NearLimit", Degraded, "90 % or more of the files and connections that rdmad may have open are open: connections are refused soon.", "raise LimitNOFILE of the service (systemctl edit rdmad), or ulimit -n, and restart rdmad; rdmactl clients shows who has many connections")

	LimitsInForce = reason(Limits, "InForce", OK, "The limits that were set at runtime are in force.", "")
	LimitsLeftOut = reason(Limits, "LeftOut", Degraded, "Limits that were set at runtime before the start are out of range, or do not go with those of the configuration file. The file's are in force instead.", "set them again, which forgets those: rdmactl limits set; or correct the file, so that they go with it")

	ReloadLoaded  = reason(Reload, "Loaded", OK, "The configuration file is in force.", "")
	ReloadWaits   = reason(Reload, "WaitsForConfirmation", Degraded, "The changed file waits until a revision of the settings is confirmed or rolled back.", "rdmactl settings confirm, or rdmactl settings rollback REVISION; one of the fleet: wait for its controller, or roll it back")
	ReloadRestart = reason(Reload, "WaitsForRestart", Degraded, "The changed file is in force, except for values that rdmad reads at its start only: see the message.", "restart rdmad, or undo these changes of the file")
	ReloadRefused = reason(Reload, "Refused", Degraded, "The changed file has errors. Everything stays as it was.", "correct the file: rdmad check --config FILE lists its errors")
	ReloadBlocked = reason(Reload, "Blocked", Degraded, "The changed file needs something that is not there now, such as a port or a directory. Everything stays as it was, and rdmad tries again.", "remove the cause: see the message; rdmad then applies the file within a minute")

	RPCBindRegistered = reason(RPCBind, "Registered", OK, "The services are registered.", "")
	RPCBindUnasked    = reason(RPCBind, "NotRegistered", Unknown, "rdmad has not asked rpcbind yet.", "wait some seconds")
	RPCBindAway       = reason(RPCBind, "Unreachable", Degraded, "rpcbind does not answer, or refuses rdmad: clients that ask for the port don't find the services.", "start it: systemctl start rpcbind.socket; or leave rpcbind off")
	RPCBindTaken      = reason(RPCBind, "Taken", Degraded, "Another server has registered the same program.", "stop that server, or remove what it left: rpcinfo -d PROGRAM VERSION")

	FleetJoined       = reason(Fleet, "Joined", OK, "The node is in the fleet, and its assignment is in force.", "")
	FleetLeads        = reason(Fleet, "Controller", OK, "This rdmad is the fleet's controller.", "")
	FleetConnecting   = reason(Fleet, "NotConnected", Unknown, "rdmad has no answer of etcd yet.", "wait some seconds")
	FleetAway         = reason(Fleet, "Unreachable", Degraded, "etcd does not answer. The settings stay as they are.", "start etcd, or correct fleet.endpoints: etcdctl endpoint health")
	FleetSlow         = reason(Fleet, "Slow", Degraded, "etcd takes longer than a second to store a report. The node is in the fleet; changes come late.", "look at etcd's disks and load: etcdctl endpoint status, etcdctl check perf")
	FleetUntrusted    = reason(Fleet, "Certificate", Degraded, "The TLS handshake with etcd fails. The settings stay as they are.", "renew the certificate that the message names; fleet.tls has this rdmad's files")
	FleetDenied       = reason(Fleet, "Denied", Degraded, "etcd refuses this rdmad's requests. The settings stay as they are.", "give its user a role with read and write permission on the prefix: etcdctl role grant-permission")
	FleetNoSpace      = reason(Fleet, "NoSpace", Degraded, "etcd is out of space and refuses changes. The settings stay as they are.", "etcdctl compact, etcdctl defrag, then etcdctl alarm disarm")
	FleetNameTaken    = reason(Fleet, "NameTaken", Degraded, "Another rdmad has the node's name: this one stays outside of the fleet. After a crash this ends by itself in 15 seconds.", "give each rdmad another fleet.node")
	FleetOtherCluster = reason(Fleet, "OtherCluster", Degraded, "The etcd cluster is not the one from which the settings come. They stay as they are.", "correct fleet.endpoints; if the new cluster is the right one, start rdmad once without fleet")
	FleetOlder        = reason(Fleet, "OlderData", Degraded, "etcd's data are older than the assignment in force, as after a restore of a backup. The settings stay as they are.", "restore the backup with etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted")
	FleetUnreadable   = reason(Fleet, "Unreadable", Degraded, "A key of the fleet has a value that this rdmad can't read. The settings stay as they are.", "update this rdmad if a newer one wrote the key; else delete the key: etcdctl del KEY")
	FleetNotApplied   = reason(Fleet, "NotApplied", Degraded, "The node refused its assignment. The settings stay as they are.", "remove the cause that the message names, or change the policy; rdmad tries again by itself")
	FleetLeftOut      = reason(Fleet, "LeftOut", Degraded, "A key under the prefix is not one of the fleet's, or has a value that can't be read. The fleet continues without it.", "update this rdmad if a newer one wrote the key; else delete the key: etcdctl del KEY")

	RolloutRunning    = reason(Rollout, "Running", OK, "The rollout goes from wave to wave.", "")
	RolloutPaused     = reason(Rollout, "Paused", OK, "An operator has paused the rollout. No further wave begins.", "")
	RolloutRolledBack = reason(Rollout, "RolledBack", Degraded, "A gate halted the rollout. All its nodes have their earlier settings again.", "correct the policy and apply it again: rdmactl fleet rollouts show NAME")
	RolloutHalted     = reason(Rollout, "Halted", Degraded, "A gate halted the rollout. Its nodes take the change back.", "see which nodes have not taken it back: rdmactl fleet rollouts show NAME, rdmactl fleet drift")
)
