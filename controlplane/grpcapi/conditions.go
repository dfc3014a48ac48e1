package grpcapi

import (
	"context"

	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/dataplane/conditions"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func condition(c *conditions.Condition) *rdmadv1.Condition {
	return &rdmadv1.Condition{
		Kind: string(c.Kind()), Name: c.Name, Reason: c.Reason.Name,
		Status:  rdmadv1.Condition_Status(rdmadv1.Condition_Status_value[c.Status().String()]),
		Message: c.Message, Remedy: c.Remedy(), Since: timestamp(c.Since),
	}
}

// ListConditions implements rdmadv1.StatusServiceServer.
func (s *statusService) ListConditions(context.Context, *rdmadv1.ListConditionsRequest) (*rdmadv1.ListConditionsResponse, error) {
	all := s.cfg.Conditions.List()
	return &rdmadv1.ListConditionsResponse{Healthy: len(all.NotOK()) == 0, Conditions: messages(all, condition)}, nil
}

type conditionStream = grpc.ServerStreamingServer[rdmadv1.WatchConditionsResponse]

// WatchConditions implements rdmadv1.StatusServiceServer.
func (s *statusService) WatchConditions(_ *rdmadv1.WatchConditionsRequest, stream conditionStream) error {
	w := s.cfg.Conditions.Watch()
	defer w.Close()
	var told conditions.List
	for w.Next(stream.Context().Done()) {
		now := s.cfg.Conditions.List()
		if err := tellConditions(stream, told, now); err != nil {
			return err
		}
		told = now
	}
	return stream.Context().Err()
}

// tellConditions sends what is not the same in both lists.
func tellConditions(stream conditionStream, told, now conditions.List) error {
	for i := range told {
		if now.Find(told[i].Kind(), told[i].Name) != nil {
			continue
		}
		if err := stream.Send(&rdmadv1.WatchConditionsResponse{Condition: condition(&told[i]), Removed: true}); err != nil {
			return err
		}
	}
	for i := range now {
		if old := told.Find(now[i].Kind(), now[i].Name); old != nil && *old == now[i] {
			continue
		}
		if err := stream.Send(&rdmadv1.WatchConditionsResponse{Condition: condition(&now[i])}); err != nil {
			return err
		}
	}
	return nil
}
