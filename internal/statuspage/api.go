package statuspage

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"drydock.dev/drydock/internal/observe"
	statusv1 "drydock.dev/drydock/internal/statuspage/proto/drydock/v1"
	"drydock.dev/drydock/internal/statuspage/proto/drydock/v1/statusv1connect"
)

// handleAPI serves the Connect API, which gRPC and plain HTTP with JSON can call as well.
func (s *Server) handleAPI(mux *http.ServeMux) {
	path, handler := statusv1connect.NewStatusServiceHandler(&api{s}, connect.WithReadMaxBytes(bodyBytes))
	mux.Handle(path, handler)
	// A stream has no time limit, which must be set on its connection.
	mux.HandleFunc(statusv1connect.StatusServiceWatchProcedure, func(w http.ResponseWriter, r *http.Request) {
		opened, err := s.openStream(w, r)
		if err != nil {
			_ = connect.NewErrorWriter().Write(w, r, connect.NewError(connect.CodeResourceExhausted, err))
			return
		}
		defer opened.close()
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), streamKey{}, opened)))
	})
}

// streamKey is the context key of a request's stream.
type streamKey struct{}

// api answers from the view.
type api struct{ server *Server }

func (a *api) view() *View {
	view, _ := a.server.reader.View()
	return view
}

// worksView returns the view, or an error if the server shows only the portal.
func (a *api) worksView() (*View, error) {
	view := a.view()
	if view.PortalOnly {
		return nil, connect.NewError(connect.CodePermissionDenied, errors.New("this server shows only portal "+a.server.options.Portal+", without rollouts and nodes"))
	}
	return view, nil
}

func (a *api) ui() webUI { return a.server.pages.ui }

func (a *api) ListComponents(_ context.Context, in *connect.Request[statusv1.ListComponentsRequest]) (*connect.Response[statusv1.ListComponentsResponse], error) {
	return connect.NewResponse(listComponents(a.view(), in.Msg)), nil
}

func (a *api) ListMaintenances(_ context.Context, in *connect.Request[statusv1.ListMaintenancesRequest]) (*connect.Response[statusv1.ListMaintenancesResponse], error) {
	return connect.NewResponse(listMaintenances(a.view(), in.Msg)), nil
}

func (a *api) ListIncidents(_ context.Context, in *connect.Request[statusv1.ListIncidentsRequest]) (*connect.Response[statusv1.ListIncidentsResponse], error) {
	return connect.NewResponse(listIncidents(a.view(), in.Msg)), nil
}

func (a *api) ListUpgrades(_ context.Context, in *connect.Request[statusv1.ListUpgradesRequest]) (*connect.Response[statusv1.ListUpgradesResponse], error) {
	view, err := a.worksView()
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(listUpgrades(view, in.Msg, a.ui())), nil
}

func (a *api) GetUpgrade(_ context.Context, in *connect.Request[statusv1.GetUpgradeRequest]) (*connect.Response[statusv1.GetUpgradeResponse], error) {
	view, err := a.worksView()
	if err != nil {
		return nil, err
	}
	upgrade, known := view.upgrade(in.Msg.GetNamespace(), in.Msg.GetName())
	if !known && view.AsOf.IsZero() {
		return nil, connect.NewError(connect.CodeUnavailable, errUnread)
	}
	if !known {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("rollout "+in.Msg.GetNamespace()+"/"+in.Msg.GetName()+" not found, or it ended long ago"))
	}
	answer := &statusv1.GetUpgradeResponse{Freshness: freshnessOf(view), Upgrade: upgradeMessage(upgrade, a.ui(), time.Now())}
	for _, cluster := range upgrade.Status.Clusters {
		answer.Clusters = append(answer.Clusters, clusterMessage(cluster))
	}
	return connect.NewResponse(answer), nil
}

func (a *api) ListNodes(_ context.Context, in *connect.Request[statusv1.ListNodesRequest]) (*connect.Response[statusv1.ListNodesResponse], error) {
	view, err := a.worksView()
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(listNodes(view, in.Msg, a.ui())), nil
}

// Watch sends changes since the previous message, several at once.
func (a *api) Watch(ctx context.Context, _ *connect.Request[statusv1.WatchRequest], out *connect.ServerStream[statusv1.WatchResponse]) error {
	opened, ok := ctx.Value(streamKey{}).(stream)
	if !ok {
		return connect.NewError(connect.CodeInternal, errors.New("the stream was not opened"))
	}
	opened.read()
	var sent *View
	var at time.Time
	for number := int64(0); ; {
		view, more := a.server.next(ctx, number, heartbeatInterval)
		if !more {
			return ctx.Err()
		}
		number = view.Number
		message := changedSince(sent, view, a.ui())
		if message == nil && time.Since(at) >= heartbeatInterval {
			message = &statusv1.WatchResponse{Freshness: freshnessOf(view)} // shows that the stream is alive
		}
		if message != nil {
			opened.extendWriteDeadline()
			if err := out.Send(message); err != nil {
				return err
			}
			sent, at = view, time.Now()
		}
		if observe.Pause(ctx, batchDelay) != nil {
			return ctx.Err()
		}
	}
}

// changedSince is the message for a client with an earlier view; nil without changes. A client without a view gets all lists.
func changedSince(last, now *View, ui webUI) *statusv1.WatchResponse {
	first := last == nil
	if first {
		last = &View{revisions: revisions{-1, -1, -1}}
	}
	message := &statusv1.WatchResponse{Freshness: freshnessOf(now)}
	changed := first || (last.Trouble == nil) != (now.Trouble == nil)
	if last.revisions.portal != now.revisions.portal {
		components := listComponents(now, &statusv1.ListComponentsRequest{})
		message.Components = &statusv1.ComponentList{Status: components.GetStatus(), Components: components.GetComponents()}
		maintenances := listMaintenances(now, &statusv1.ListMaintenancesRequest{})
		message.Maintenances = &statusv1.MaintenanceList{Maintenances: maintenances.GetMaintenances(), Problems: maintenances.GetProblems()}
		message.Incidents = &statusv1.IncidentList{Incidents: listIncidents(now, &statusv1.ListIncidentsRequest{}).GetIncidents()}
		changed = true
	}
	if last.revisions.upgrades != now.revisions.upgrades && !now.PortalOnly {
		upgrades := listUpgrades(now, &statusv1.ListUpgradesRequest{}, ui)
		message.Upgrades = &statusv1.UpgradeList{Upgrades: upgrades.GetUpgrades(), More: upgrades.GetMore()}
		changed = true
	}
	if last.revisions.nodes != now.revisions.nodes && !now.PortalOnly {
		nodes := listNodes(now, &statusv1.ListNodesRequest{}, ui)
		message.Nodes = &statusv1.NodeList{Nodes: nodes.GetNodes(), More: nodes.GetMore()}
		changed = true
	}
	if !changed {
		return nil
	}
	return message
}

func listComponents(v *View, in *statusv1.ListComponentsRequest) *statusv1.ListComponentsResponse {
	answer := &statusv1.ListComponentsResponse{Freshness: freshnessOf(v), Status: statusMessages[v.status()]}
	for _, component := range v.components() {
		if in.GetGroup() == "" || in.GetGroup() == component.Group {
			answer.Components = append(answer.Components, componentMessage(component))
		}
	}
	return answer
}

func listMaintenances(v *View, in *statusv1.ListMaintenancesRequest) *statusv1.ListMaintenancesResponse {
	answer := &statusv1.ListMaintenancesResponse{Freshness: freshnessOf(v), Problems: v.problems()}
	for _, maintenance := range v.maintenances(phaseOf(in.GetPhase())) {
		answer.Maintenances = append(answer.Maintenances, maintenanceMessage(maintenance))
	}
	return answer
}

func listIncidents(v *View, in *statusv1.ListIncidentsRequest) *statusv1.ListIncidentsResponse {
	answer := &statusv1.ListIncidentsResponse{Freshness: freshnessOf(v)}
	for _, incident := range v.incidents() {
		if incident.ResolvedAt == nil || !in.GetUnresolvedOnly() {
			answer.Incidents = append(answer.Incidents, incidentMessage(incident))
		}
	}
	return answer
}

func listUpgrades(v *View, in *statusv1.ListUpgradesRequest, ui webUI) *statusv1.ListUpgradesResponse {
	answer := &statusv1.ListUpgradesResponse{Freshness: freshnessOf(v), More: int32(v.MoreUpgrades)}
	for _, upgrade := range v.Upgrades {
		if upgrade.Running() || !in.GetRunningOnly() {
			answer.Upgrades = append(answer.Upgrades, upgradeMessage(upgrade, ui, time.Now()))
		}
	}
	return answer
}

func listNodes(v *View, in *statusv1.ListNodesRequest, ui webUI) *statusv1.ListNodesResponse {
	answer := &statusv1.ListNodesResponse{Freshness: freshnessOf(v), More: int32(v.MoreNodes)}
	for _, node := range v.nodesOf(in.GetCluster(), in.GetNode()) {
		answer.Nodes = append(answer.Nodes, nodeMessage(node, ui))
	}
	return answer
}
