package statuspage

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"drydock.dev/drydock/internal/webaccess"
)

// Access decides who may read and change what the server shows. The zero value: everyone who can reach the server may read, and changes are refused.
type Access struct {
	// Token lets its bearer read, and announce and cancel maintenances; empty: there is none.
	Token string
	// OIDC accepts tokens of an OpenID Connect issuer; nil: none.
	OIDC *OIDC
	// View and Operate are groups in tokens of OIDC. Members of Operate do all that a bearer of Token does, members of View only read. If View has a
	// group, readers need a token.
	View, Operate []string
}

// caller is who sent a request.
type caller struct {
	// actor is the user that the token names; empty: the token names none.
	actor         string
	view, operate bool
	// expires is when the token does; zero: never.
	expires time.Time
	// refused is why the request has no rights, or no more than every reader.
	refused error
}

// callerKey is the context key of a request's caller.
type callerKey struct{}

// callerOf returns who sent the request of ctx.
func callerOf(ctx context.Context) caller {
	from, ok := ctx.Value(callerKey{}).(caller)
	if !ok {
		return caller{refused: errors.New("the request was not checked")}
	}
	return from
}

// publicPath needs no token: load balancers and the kubelet send requests to it.
const publicPath = "/healthz"

// checked adds the caller to each request, and refuses readers without rights.
func (a Access) checked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := a.caller(r)
		if !from.view && r.URL.Path != publicPath {
			if connect.CodeOf(from.refused) == connect.CodeUnauthenticated {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			a.refuse(w, r, from.refused)
			return
		}
		ctx := context.WithValue(r.Context(), callerKey{}, from)
		if !from.expires.IsZero() {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, from.expires) // a stream ends with its token
			defer cancel()
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// refuse answers a call of the API in its protocol, and others in plain text.
func (a Access) refuse(w http.ResponseWriter, r *http.Request, why error) {
	if errors := connect.NewErrorWriter(); errors.IsSupported(r) {
		_ = errors.Write(w, r, why)
		return
	}
	status := http.StatusForbidden
	switch connect.CodeOf(why) {
	case connect.CodeUnauthenticated:
		status = http.StatusUnauthorized
	case connect.CodeUnavailable:
		status = http.StatusServiceUnavailable
	}
	http.Error(w, messageOf(why), status)
}

// messageOf is the message of an error without its code.
func messageOf(err error) string {
	if coded, ok := errors.AsType[*connect.Error](err); ok {
		return coded.Message()
	}
	return err.Error()
}

// caller identifies who sent a request.
func (a Access) caller(r *http.Request) caller {
	from := caller{view: len(a.View) == 0}
	if a.Token == "" && a.OIDC == nil {
		from.refused = connect.NewError(connect.CodePermissionDenied, errors.New("this server is read-only: start it with --token-file or --oidc-issuer-url to allow changes"))
		return from
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer") || token == "":
		from.refused = connect.NewError(connect.CodeUnauthenticated, errors.New("the token is missing: send it as Authorization: Bearer TOKEN"))
	case webaccess.HasToken(r.Header, a.Token):
		from.view, from.operate = true, true
	case a.OIDC != nil:
		a.identify(r.Context(), token, &from)
	default:
		from.refused = connect.NewError(connect.CodeUnauthenticated, errors.New("the token is wrong: send it as Authorization: Bearer TOKEN"))
	}
	return from
}

// identify sets the rights of the bearer of a token of OIDC.
func (a Access) identify(ctx context.Context, token string, from *caller) {
	claims, err := a.OIDC.verify(ctx, token)
	if err != nil {
		from.refused = err
		return
	}
	in := func(groups []string) bool {
		return slices.ContainsFunc(groups, func(group string) bool { return slices.Contains(claims.groups, group) })
	}
	from.actor, from.expires = claims.user, claims.expires
	from.operate = in(a.Operate)
	from.view = from.view || from.operate || in(a.View)
	if !from.operate {
		from.refused = connect.NewError(connect.CodePermissionDenied, errors.New(claims.user+" is in none of the groups that may do this"))
	}
}

// operator returns the actor of a change, or why the caller may not make it. given is the actor that the request names.
func operator(ctx context.Context, given string) (actor string, err error) {
	from := callerOf(ctx)
	switch {
	case !from.operate:
		return "", from.refused
	case from.actor != "" && given != "" && given != from.actor:
		return "", connect.NewError(connect.CodeInvalidArgument, errors.New("actor: must be empty or "+from.actor+", whom the token names"))
	}
	return cmp.Or(from.actor, given, defaultActor), nil
}
