// Package monitoring tests what operators add to Prometheus and Grafana for rdmad: the
// rules and alerts in configs/prometheus, and the dashboard in configs/grafana. Debian's
// Prometheus checks them, and runs every query against live rdmads.
package monitoring
